"""Requests made by tests of live ends: what to ask, and a request in a task of its own."""

from __future__ import annotations

from typing import Any

import anyio

from moorage.connection.host_end import HostConnection
from moorage.errors import ExecutionError
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult


def execute(arguments: str = "{}") -> ExecuteRequest:
    """Return a request to run ``bash``."""
    return ExecuteRequest(call=ToolCall(name="bash", arguments=arguments), actor="agent")


def saying(text: str) -> ToolResult:
    """Return a result of one text."""
    return ToolResult(content=(ContentPart(type="text", text=text),))


class Asking:
    """A request in a task of its own."""

    def __init__(self, host: HostConnection, arguments: str = "{}", **options: Any) -> None:
        """Ask ``host`` when called; ``options`` go to the request."""
        self._host = host
        self._arguments = arguments
        self._options = options
        self.scope = anyio.CancelScope()
        self.answer: ToolResult | ExecutionError | None = None
        self.ended = anyio.Event()

    async def __call__(self) -> None:
        """Ask, and keep the result or the error as ``answer``."""
        with self.scope:
            try:
                self.answer = await self._host.request(
                    "execute", execute(self._arguments), ToolResult, **self._options
                )
            except ExecutionError as error:
                self.answer = error
        self.ended.set()
