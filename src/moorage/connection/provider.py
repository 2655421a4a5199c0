"""What a worker serves: the public contract for authors of providers.

``worker_end.serve`` owns framing, the token, ids, cancellation, callbacks and the order of
shutdown. A provider owns the operations, their boundaries, and what it started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from moorage.protocol.binding import Binding
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.tool_calls import ToolCall, ToolResult


class RequestContext(Protocol):
    """What a handler may use while its own request lives."""

    @property
    def request_id(self) -> str:
        """Return the id of the request, unique among the live ones of the connection."""

    @property
    def scope(self) -> anyio.CancelScope:
        """Return the scope of the request; a handler that shields itself may look at it."""

    @property
    def lifetime(self) -> TaskGroup:
        """Return the tasks of the connection: cancelled after all handlers ended, before close."""

    async def emit_process(self, event: ProcessEvent) -> None:
        """Publish a process event on this connection; also allowed after the request ended."""

    def lose_event(self) -> None:
        """Let the host know that an event was not sent, so that it looks at the records."""

    async def invoke_tool(self, call: ToolCall) -> ToolResult:
        """Ask the host to run a tool for this request, while the request lives.

        Raises:
            Refused: the host's policy said no.
            RemoteProtocolViolation: the answer was malformed; the request fails with it.
            LocalProtocolViolation: the request has ended or has too many calls outstanding.
        """


Handler = Callable[[Any, RequestContext], Awaitable[Any]]
"""Takes the method's request message (None where it has none) and returns its reply message."""


class Provider(Protocol):
    """The abilities behind one connection."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the additive promises to advertise; each needs its methods."""

    @property
    def methods(self) -> Mapping[str, Handler]:
        """Return the handlers by wire name; a missing one is answered with an error."""

    async def initialize(self, binding: Binding, context: RequestContext) -> str:
        """Take the checked binding, acquire what it needs, and return the resolved root.

        A failure or cancellation kills the connection; ``close`` still runs.
        """

    async def close(self) -> None:
        """Stop and release everything; called exactly once, after all handlers have ended."""
