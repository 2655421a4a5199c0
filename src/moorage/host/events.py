"""The stream of a session's events, to as many readers as ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from moorage.host.results import FileChange, FileChanged, SessionEvent

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

    def announce(self, change: FileChange) -> None:
        """Give every reader the event of one changed file; a full reader misses it."""
        self._count += 1
        event = FileChanged(sequence=self._count, change=change)
        for reader in self._readers:
            try:
                reader.send_nowait(event)
            except anyio.WouldBlock:
                continue
