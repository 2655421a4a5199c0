"""Process events on their way from whoever tells them to the hosts of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from moorage.protocol.processes import ProcessEvent

if TYPE_CHECKING:
    from moorage.connection.provider import RequestContext

MOST_UNSENT_EVENTS = 1024
"""Events are hints: what nobody has taken by then is dropped, and the records tell the truth."""


class EventOutlet:
    """Where a manager puts its events, and a task of the connection takes them."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._into, self._events = anyio.create_memory_object_stream[ProcessEvent](
            MOST_UNSENT_EVENTS
        )

    def put(self, event: ProcessEvent) -> None:
        """Have an event published soon, or drop it when too many wait."""
        try:
            self._into.send_nowait(event)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    async def publish(self, context: RequestContext) -> None:
        """Publish events until the connection ends."""
        with self._events:
            async for event in self._events:
                await context.emit_process(event)

    def close(self) -> None:
        """Take no more."""
        self._into.close()
        self._events.close()
