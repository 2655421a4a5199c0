"""Nested tool calls at the host: each runs on behalf of a live request and ends with it."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from moorage.errors import ExecutionError, Refused, WorkerFailure
from moorage.protocol.machines.events import ToolCallArrived
from moorage.protocol.machines.host_side import HostProtocol
from moorage.protocol.tool_calls import ToolCall, ToolResult

logger = logging.getLogger(__name__)

ToolCallHandler = Callable[[ToolCall], Awaitable[ToolResult]]
"""Runs a nested tool call of a live request; an ``ExecutionError`` it raises is the answer."""


class Callbacks:
    """The nested calls that are running, by the request that made them."""

    def __init__(self, protocol: HostProtocol, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Answer through ``send``."""
        self._protocol = protocol
        self._send = send
        self._scopes: defaultdict[str, set[anyio.CancelScope]] = defaultdict(set)

    def start(
        self, tasks: TaskGroup, event: ToolCallArrived, handler: ToolCallHandler | None
    ) -> None:
        """Run one call in ``tasks``; without a handler it is refused."""
        scope = anyio.CancelScope()
        self._scopes[event.parent_id].add(scope)
        tasks.start_soon(self._run, event, handler or _refuse, scope)

    def end(self, parent_id: str) -> None:
        """Cancel what still runs for a request that has ended."""
        for scope in self._scopes.pop(parent_id, ()):
            scope.cancel()

    async def _run(
        self, event: ToolCallArrived, handler: ToolCallHandler, scope: anyio.CancelScope
    ) -> None:
        answer: ToolResult | ExecutionError | None = None
        with scope:
            try:
                answer = await handler(event.call)
            except ExecutionError as error:
                answer = error
            except Exception as error:
                # A fault in the host's own tool must reach the program, not end the connection.
                logger.exception("a nested tool call failed")
                answer = WorkerFailure(f"the host failed to run {event.call.name}: {error}")
        if event.parent_id in self._scopes:
            self._scopes[event.parent_id].discard(scope)
        if answer is not None:
            await self._send(self._protocol.answer(event.callback_id, answer))


async def _refuse(call: ToolCall) -> ToolResult:
    raise Refused(f"this host runs no nested tool calls ({call.name}).", reason="no_nested_calls")
