"""What the two machines report after they took bytes in."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.errors import ExecutionError, RemoteProtocolViolation
from moorage.protocol.binding import Binding
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.tool_calls import ToolCall, ToolResult


class FrameReady(msgspec.Struct, frozen=True):
    """An answer that the machine gives by itself; write it."""

    frame: bytes


class InputEnded(msgspec.Struct, frozen=True):
    """The other side sends no more; ``failure`` when that is because it broke the protocol."""

    failure: RemoteProtocolViolation | None = None


# ---------------------------------------------------------------- at the worker


class InitializeArrived(msgspec.Struct, frozen=True):
    """Let the provider take the binding, then call ``initialized`` or ``fail``."""

    request_id: str
    binding: Binding


class RequestArrived(msgspec.Struct, frozen=True):
    """Run the handler of ``method``, then call ``reply`` or ``fail``; ``data`` is decoded."""

    request_id: str
    method: str
    data: Any


class CancelArrived(msgspec.Struct, frozen=True):
    """Cancel the handler of a live request; its terminal reply follows when it has ended."""

    request_id: str


class CallbackArrived(msgspec.Struct, frozen=True):
    """A nested tool call was answered: with a result, or with an error.

    ``is_malformed`` says that the answer could not be read, which fails the parent as well.
    """

    callback_id: str
    parent_id: str
    result: ToolResult | None = None
    error: ExecutionError | None = None
    is_malformed: bool = False


WorkerEvent = FrameReady | InitializeArrived | RequestArrived | CancelArrived | CallbackArrived


# ---------------------------------------------------------------- at the host


class ReplyArrived(msgspec.Struct, frozen=True):
    """The terminal reply of a request: a value of its reply type, or an error."""

    request_id: str
    value: Any = None
    error: ExecutionError | None = None


class ToolCallArrived(msgspec.Struct, frozen=True):
    """Run a tool on behalf of a live request, then call ``answer``."""

    callback_id: str
    parent_id: str
    call: ToolCall


class ProcessEventArrived(msgspec.Struct, frozen=True):
    """Something happened to a process; ``is_gap`` says that events before it were lost."""

    event: ProcessEvent
    is_gap: bool


HostEvent = FrameReady | ReplyArrived | ToolCallArrived | ProcessEventArrived
