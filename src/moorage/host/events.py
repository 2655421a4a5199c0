"""The stream of a session's events, to as many readers as ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from moorage.host.results import FileChange, FileChanged, ProcessChanged, SessionEvent
from moorage.protocol.processes import ProcessEvent

BUFFER = 1024
"""Events that a slow reader may lag behind; beyond, events are left out and the sequence jumps."""


class EventFeed:
    """Numbers the events of one session and hands them to every open reader."""

    def __init__(self) -> None:
        """Start without readers and without events."""
        self._count = 0
        self._readers: set[MemoryObjectSendStream[SessionEvent]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[MemoryObjectReceiveStream[SessionEvent]]:
        """Open a stream of the events from now on."""
        sender, receiver = anyio.create_memory_object_stream[SessionEvent](BUFFER)
        self._readers.add(sender)
        try:
            with sender, receiver:
                yield receiver
        finally:
            self._readers.discard(sender)

    def announce_change(self, change: FileChange) -> None:
        """Tell every reader of one changed file."""
        self._announce(FileChanged(sequence=self._next(), change=change))

    def announce_process(self, event: ProcessEvent) -> None:
        """Tell every reader what happened to one background process."""
        changed = ProcessChanged(
            sequence=self._next(), type=event.type, cause=event.cause, process=event.process
        )
        self._announce(changed)

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _announce(self, event: SessionEvent) -> None:
        """Give the event to every reader; a full one misses it, and sees the sequence jump."""
        for reader in self._readers:
            with suppress(anyio.WouldBlock):
                reader.send_nowait(event)
