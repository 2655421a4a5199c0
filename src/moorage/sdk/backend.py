"""A backend as its author describes it: handlers by wire name, and what they may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import LocalProtocolViolation
from moorage.protocol.binding import PROCESS_START, Binding
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.worker_side import WorkerProtocol
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult

if TYPE_CHECKING:
    import anyio
    from anyio.abc import TaskGroup

    from moorage.connection.provider import RequestContext

ExecutionToolRequestV4 = ExecuteRequest
"""What ``execute`` gets: one tool call, who makes it, and the permission mode it is made in."""

ExecutionProcessV4 = ProcessRecord
"""The record of one process; it belongs to the session of the binding."""


class ExecutionContextV4:
    """What a handler may use."""

    __slots__ = ("_context", "_is_over", "binding")

    def __init__(self, context: RequestContext, binding: Binding) -> None:
        """Speak for one request of a bound connection."""
        self._context = context
        self._is_over = False
        self.binding = binding
        """What the connection is bound to: root, session, identity, forwarded variables."""

    @property
    def signal(self) -> anyio.CancelScope:
        """Return the scope of this request, whose ``cancel_called`` says whether it was cancelled.

        The handler is cancelled with it; only one that shields itself needs to look.
        """
        return self._context.scope

    @property
    def lifetime(self) -> TaskGroup:
        """Return the tasks of the connection; what a request starts there goes on after its end.

        They are cancelled when every handler has ended, before the backend is closed.
        """
        return self._context.lifetime

    async def invoke_tool(self, call: ToolCall) -> ToolResult:
        """Have the host run a tool on behalf of this request, while the request lives.

        Raises:
            LocalProtocolViolation: the request has ended.
            Refused: the host's policy said no.
        """
        if self._is_over:
            raise LocalProtocolViolation(
                f"the request that would call {call.name} has ended; nothing was called."
            )
        return await self._context.invoke_tool(call)

    async def emit_process(self, event: ProcessEvent) -> None:
        """Tell the host that something happened to a process, also after the request ended."""
        await self._context.emit_process(event)

    def lose_event(self) -> None:
        """Let the host know that an event was not told, so that it looks at the records."""
        self._context.lose_event()

    def end(self) -> None:
        """Let no tool be called any more: the request has ended."""
        self._is_over = True


MethodHandlerV4 = Callable[[Any, ExecutionContextV4], Awaitable[Any]]
"""Takes the request of its method, or None, and returns the reply, as a message or as plain data.

An ``ExecutionError`` that it raises is the answer; nothing is tried again.
"""

InitializeHandlerV4 = Callable[[Binding, ExecutionContextV4], Awaitable[str | None]]
"""Takes the binding and returns the root that it serves, or None for that of the binding."""


class ExecutionBackendV4(msgspec.Struct, frozen=True, kw_only=True):
    """An execution backend: give it to ``run_execution_backend_v4``.

    ``methods`` has a handler for each method by its name on the wire; what is missing there is
    answered with an error. ``close`` runs once, when every handler has ended, also after a failed
    initialization. ``capabilities`` are promises, each of which needs its methods.

    Raises:
        LocalProtocolViolation: there is no such method, or a promise lacks what it needs.
    """

    initialize: InitializeHandlerV4
    methods: Mapping[str, MethodHandlerV4]
    close: Callable[[], Awaitable[None]] | None = None
    capabilities: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what is offered, as early as can be."""
        WorkerProtocol(Pin(), frozenset(self.methods), frozenset(self.capabilities))
        if PROCESS_START in self.capabilities and self.close is None:
            raise LocalProtocolViolation(
                f"capability {PROCESS_START} needs a close, which ends what was started.",
                hint="Give the backend a close that stops every process it still owns.",
            )
