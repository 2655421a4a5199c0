"""The steps of getting an environment, told to whoever wants to show them while they last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step that begins, or that has ended well."""

    name: str
    doing: str = ""
    """What a person is waiting for, where it can take long."""

    seconds: float | None = None
    """How long it took; none as it begins."""


Listener = Callable[[Step], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have ``listener`` told of every step in this context, beside whoever is told already."""
    outer = _listener.get()

    def tell(told: Step) -> None:
        listener(told)
        if outer is not None:
            outer(told)

    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def step(name: str, doing: str = "") -> Iterator[None]:
    """Tell that a step begins and, unless it fails, how long it took."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    started = time.monotonic()
    listener(Step(name=name, doing=doing))
    yield
    listener(Step(name=name, doing=doing, seconds=time.monotonic() - started))
