"""Incoming bytes to events, up to the end of the input or the first breach of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from moorage.errors import RemoteProtocolViolation
from moorage.protocol.framing import FrameReader
from moorage.protocol.machines.events import InputEnded

E = TypeVar("E")


class Intake(Generic[E]):
    """Feeds complete frames to ``take``; its events come back in order, ``InputEnded`` last."""

    def __init__(self, take: Callable[[bytes], E | None], max_frame_bytes: int) -> None:
        """Start with nothing read."""
        self.is_ended = False
        self._take = take
        self._reader = FrameReader(max_frame_bytes)

    def receive(self, data: bytes) -> list[E | InputEnded]:
        """Take the next bytes, ``b""`` for their end, and return what they mean."""
        events: list[E | InputEnded] = []
        if self.is_ended:
            return events
        try:
            # Filled one by one: what came before a breach still counts.
            for event in map(self._take, self._frames(data)):
                if event is not None:
                    events.append(event)  # noqa: PERF401
        except RemoteProtocolViolation as failure:
            events.append(InputEnded(failure))
            self.is_ended = True
        else:
            if not data:
                events.append(InputEnded())
                self.is_ended = True
        return events

    def _frames(self, data: bytes) -> Iterator[bytes]:
        yield from self._reader.feed(data) if data else self._reader.finish()
        if self._reader.failure is not None:
            raise self._reader.failure
