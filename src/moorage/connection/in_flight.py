"""Live requests of a worker connection: each with its cancel scope and its nested tool calls."""

from __future__ import annotations

from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from moorage.errors import ExecutionError, RequestCancelled
from moorage.protocol.machines.events import CallbackArrived
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.tool_calls import ToolCall, ToolResult


class Line(Protocol):
    """What a live request needs of its connection."""

    @property
    def lifetime(self) -> TaskGroup:
        """Return the tasks of the connection."""

    async def publish(self, event: ProcessEvent) -> None:
        """Send a process event."""

    def lose_event(self) -> None:
        """Let the host know by a gap that an event was not sent."""

    async def open_callback(self, live: InFlight, call: ToolCall) -> str:
        """Send a nested tool call and return its id."""

    def close_callback(self, callback_id: str) -> None:
        """Stop waiting for a nested tool call."""


class InFlight:
    """One admitted request until its terminal reply; handlers see it as their context."""

    __slots__ = ("_line", "_waiters", "failure", "request_id", "scope")

    def __init__(self, line: Line, request_id: str) -> None:
        """Start without nested calls."""
        self.request_id = request_id
        self.scope = anyio.CancelScope()
        self.failure: ExecutionError | None = None
        self._line = line
        self._waiters: dict[str, _Waiter] = {}

    @property
    def lifetime(self) -> TaskGroup:
        """Return the tasks of the connection: they outlive this request."""
        return self._line.lifetime

    async def emit_process(self, event: ProcessEvent) -> None:
        """Publish a process event on this connection."""
        await self._line.publish(event)

    def lose_event(self) -> None:
        """Let the host know that an event was not sent."""
        self._line.lose_event()

    async def invoke_tool(self, call: ToolCall) -> ToolResult:
        """Ask the host to run a tool for this request."""
        callback_id = await self._line.open_callback(self, call)
        try:
            return await self._waiters[callback_id].wait()
        finally:
            del self._waiters[callback_id]
            self._line.close_callback(callback_id)

    def expect(self, callback_id: str) -> None:
        """Be ready for the answer to a nested call that is about to be sent."""
        self._waiters[callback_id] = _Waiter()

    def settle(self, event: CallbackArrived) -> None:
        """Take the answer to a nested call; one that cannot be read fails the whole request."""
        if event.is_malformed:
            self.failure = event.error
            self.scope.cancel()
        elif event.callback_id in self._waiters:
            self._waiters[event.callback_id].settle(event)

    def why_unfinished(self) -> ExecutionError:
        """Return why the handler was ended before it had a result."""
        return self.failure or RequestCancelled("the request was cancelled; its handler has ended.")


class _Waiter:
    """Waits for one answer."""

    __slots__ = ("_answer", "_event")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._answer: CallbackArrived | None = None

    def settle(self, answer: CallbackArrived) -> None:
        self._answer = answer
        self._event.set()

    async def wait(self) -> ToolResult:
        await self._event.wait()
        answer = self._answer
        if answer is None or answer.result is None:
            raise (answer and answer.error) or RequestCancelled("the tool call was not answered.")
        return answer.result
