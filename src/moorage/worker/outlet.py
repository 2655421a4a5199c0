"""Process events on their way from whoever tells them to the hosts of a connection."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from moorage.connection.provider import RequestContext
    from moorage.protocol.processes import ProcessEvent

MOST_UNSENT_EVENTS = 1024
"""Events are hints: what nobody has taken by then is dropped, and the records tell the truth."""


class EventOutlet:
    """Where a manager puts its events, and a task of the connection takes them."""

    def __init__(self) -> None:
        """Hold none yet."""
        self._waiting: deque[ProcessEvent] = deque()
        self._came = anyio.Event()

    def put(self, event: ProcessEvent) -> None:
        """Have an event published soon, or drop it when too many wait."""
        if len(self._waiting) < MOST_UNSENT_EVENTS:
            self._waiting.append(event)
            self._came.set()

    async def publish(self, context: RequestContext) -> None:
        """Publish events until this is cancelled."""
        while True:
            await self._came.wait()
            self._came = anyio.Event()
            while self._waiting:
                await context.emit_process(self._waiting.popleft())
