"""What extensions say to the model: in order, each to be told once while the session is open."""

from __future__ import annotations

import collections
from collections.abc import AsyncIterator
from typing import Any

import anyio
import msgspec

MOST_NOTICES = 256
"""Notices that wait to be told; beyond it the oldest are dropped, and the next one says so."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an extension wants the model to hear, and the same as data."""

    source: str
    text: str
    data: dict[str, Any] = {}


class Notices:
    """The notices of one session."""

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: collections.deque[Notice] = collections.deque()
        self._dropped = 0
        self._heard = anyio.Event()
        self._is_closed = False

    def post(self, notice: Notice) -> None:
        """Add one."""
        self._waiting.append(notice)
        if len(self._waiting) > MOST_NOTICES:
            self._waiting.popleft()
            self._dropped += 1
        self._wake()

    def take(self, *, at_most: int | None = None) -> list[Notice]:
        """Return what waits, the oldest first, for the turn that is being prepared."""
        count = len(self._waiting) if at_most is None else min(at_most, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        if taken and self._dropped:
            first = taken[0]
            text = f"({self._dropped} earlier notices were dropped.)\n{first.text}"
            taken[0] = msgspec.structs.replace(first, text=text)
            self._dropped = 0
        return taken

    async def __aiter__(self) -> AsyncIterator[Notice]:
        """Yield each as it comes, until the session is closed."""
        while not self._is_closed:
            heard = self._heard
            if taken := self.take(at_most=1):
                yield taken[0]
            else:
                await heard.wait()

    def close(self) -> None:
        """End every stream."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        self._heard.set()
        self._heard = anyio.Event()
