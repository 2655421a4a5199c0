"""The host's live end of a connection: requests out, replies and nested calls in.

Nothing is ever replayed. When the connection fails, what was in flight raises ``OutcomeUnknown`` and
everything later ``ConnectionLost``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import anyio
import msgspec
from anyio.abc import TaskStatus

from moorage.errors import ExecutionError
from moorage.protocol.binding import Binding, InitializeReply
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.secret import Secret
from moorage.protocol.tool_calls import ToolCall, ToolResult
from moorage.transports.transport import Transport

T = TypeVar("T")

ToolCallHandler = Callable[[ToolCall], Awaitable[ToolResult]]
"""Runs a nested tool call of a live request."""


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one host connection."""

    max_in_flight: int = 4096
    max_tool_calls_per_request: int = 128


class HostConnection:
    """Asks one worker, over one transport, for as long as both live.

    The owner starts ``run`` in its task group, or uses ``async with``.
    """

    def __init__(
        self,
        transport: Transport,
        token: Secret,
        *,
        limits: HostLimits | None = None,
        on_process_event: Callable[[ProcessEvent, bool], None] | None = None,
        on_tool_call: ToolCallHandler | None = None,
    ) -> None:
        """Keep the transport, which the connection now owns.

        ``on_process_event(event, is_gap)`` is called from the reader and must not block; ``is_gap``
        says that events were lost before this one, so the records should be listed again.
        """
        raise NotImplementedError

    @property
    def capabilities(self) -> frozenset[str]:
        """Return what the worker promised beyond the base protocol."""
        raise NotImplementedError

    @property
    def failure(self) -> ExecutionError | None:
        """Return why the connection is no longer usable, or None."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Start the reader."""
        raise NotImplementedError

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        raise NotImplementedError

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Read until the connection ends, then close the transport; never raises its failure."""
        raise NotImplementedError

    async def initialize(self, binding: Binding) -> InitializeReply:
        """Bind the connection; a failure or cancellation ends it.

        Raises:
            ProtocolMismatch: the worker speaks another version.
            ConnectionLost: the worker went away.
        """
        raise NotImplementedError

    async def request(
        self,
        method: str,
        data: msgspec.Struct | None,
        reply_type: type[T],
        *,
        deadline_seconds: float | None = None,
        on_tool_call: ToolCallHandler | None = None,
    ) -> T:
        """Ask and wait for the answer.

        Cancelled, it tells the worker and returns at once; the worker's handler still drains.

        Raises:
            ExecutionError: what the worker answered, by the table of ``protocol.failures``.
            OutcomeUnknown: the connection failed, or the deadline passed, with the request in flight.
            ConnectionLost: the connection had failed before anything of the request was sent.
            ProtocolMismatch: the worker does not promise what the method needs; nothing was sent.
            LocalProtocolViolation: the request is too large or out of turn; nothing was sent.
            RemoteProtocolViolation: the answer is not one of this method.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """End the connection: end of input, grace, then force.

        Raises:
            ShutdownIncomplete: the grace ran out; state may remain.
        """
        raise NotImplementedError
