"""Several requests in flight at a time, their answers taken in order: for bytes on a long way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

J = TypeVar("J")
A = TypeVar("A")

AT_ONCE = 4
"""Enough to fill the way there and back, and little to hold in memory."""


async def in_order(
    jobs: Iterable[J],
    ask: Callable[[J], Awaitable[A]],
    take: Callable[[J, A], None],
    *,
    at_once: int = AT_ONCE,
) -> None:
    """Ask for every job, ``at_once`` of them at a time and begun in order; take answers in order.

    What one of them raises ends all.
    """
    answers: dict[int, tuple[J, A]] = {}
    taken = 0
    room = anyio.Semaphore(at_once)

    async def answer(number: int, job: J) -> None:
        nonlocal taken
        answers[number] = (job, await ask(job))
        while taken in answers:
            take(*answers.pop(taken))
            taken += 1
            room.release()

    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            for number, job in enumerate(jobs):
                await room.acquire()
                tasks.start_soon(answer, number, job)
    except ExceptionGroup as group:
        failure = _first(group)
    if failure is not None:
        raise failure


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
