"""Commands: the cost of one, and of a hundred at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio

from benchmarks.place import Place, timed, timed_bare
from benchmarks.rows import Row, added, ratio
from moorage.host.session import Session

ROUNDS = 300
WARM_UP_ROUNDS = 20
PARALLEL_COMMANDS = 100
PARALLEL_ROUNDS = 3


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure against bare ``subprocess`` and bare asyncio, taking turns in the same run."""
    async with place.session() as session:
        ours, bare = [], []
        for number in range(WARM_UP_ROUNDS + ROUNDS):
            one_ours = await timed(lambda: session.run("true"))
            one_bare = timed_bare(["bash", "-c", "true"])
            if number >= WARM_UP_ROUNDS:
                ours.append(one_ours)
                bare.append(one_bare)
        yield ratio('run("true") over subprocess', ours, bare, 2.0)
        yield added('run("true"), added', ours, bare, 3.0)

        ours, bare = [], []
        for _ in range(PARALLEL_ROUNDS):
            ours.append(await timed(lambda: _many(session)))
            bare.append(await timed(_many_bare))
        yield ratio('100 parallel "sleep 0.2" over asyncio', ours, bare, 1.5)


async def _many(session: Session) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(PARALLEL_COMMANDS):
            group.start_soon(session.run, "sleep 0.2")


async def _many_bare() -> None:
    async def one() -> None:
        child = await asyncio.create_subprocess_exec(
            *("bash", "-c", "sleep 0.2"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await child.communicate()

    await asyncio.gather(*(one() for _ in range(PARALLEL_COMMANDS)))
