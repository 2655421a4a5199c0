"""The one table of methods: message types, direction, and what must hold before they are used."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from moorage.protocol.binding import BYTES, PROCESS_START, Binding, InitializeReply
from moorage.protocol.exports import (
    ExportClosed,
    ExportCloseRequest,
    ExportReadReply,
    ExportReadRequest,
)
from moorage.protocol.files import (
    FileReadReply,
    FileReadRequest,
    FileWriteReply,
    FileWriteRequest,
    InputWriteReply,
    InputWriteRequest,
)
from moorage.protocol.processes import (
    CleanupReply,
    CompletionDeliveredRequest,
    CompletionModeRequest,
    OutputSnapshot,
    ProcessEvent,
    ProcessRecord,
    ProcessRequest,
    ReadRequest,
    ResizeRequest,
    StartRequest,
    StopRequest,
    WriteRequest,
)
from moorage.protocol.programs import RunCodeReply, RunCodeRequest
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult

Direction = Literal["to_worker", "to_host"]


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One method of the wire.

    ``request`` is None where the data carries nothing; ``reply`` is None where no reply of its own
    follows.
    """

    name: str
    request: Any = None
    reply: Any = None
    direction: Direction = "to_worker"
    needs_binding: bool = True
    capability: str = ""


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(name="initialize", request=Binding, reply=InitializeReply, needs_binding=False),
        Method(name="cancel", needs_binding=False),
        Method(name="callback", needs_binding=False),
        Method(name="tool", request=ToolCall, reply=ToolResult, direction="to_host"),
        Method(name="process", request=ProcessEvent, direction="to_host"),
        Method(name="execute", request=ExecuteRequest, reply=ToolResult),
        Method(name="run_code", request=RunCodeRequest, reply=RunCodeReply),
        Method(name="export/read", request=ExportReadRequest, reply=ExportReadReply),
        Method(name="export/close", request=ExportCloseRequest, reply=ExportClosed),
        Method(name="file/read", request=FileReadRequest, reply=FileReadReply, capability=BYTES),
        Method(name="file/write", request=FileWriteRequest, reply=FileWriteReply, capability=BYTES),
        Method(
            name="input/write", request=InputWriteRequest, reply=InputWriteReply, capability=BYTES
        ),
        Method(
            name="process/start",
            request=StartRequest,
            reply=ProcessRecord,
            capability=PROCESS_START,
        ),
        Method(name="process/list", reply=tuple[ProcessRecord, ...]),
        Method(name="process/get", request=ProcessRequest, reply=ProcessRecord),
        Method(name="process/read", request=ReadRequest, reply=OutputSnapshot),
        Method(name="process/write", request=WriteRequest, reply=ProcessRecord),
        Method(name="process/resize", request=ResizeRequest, reply=ProcessRecord),
        Method(name="process/stop", request=StopRequest, reply=ProcessRecord),
        Method(name="process/input_available", request=ProcessRequest, reply=bool),
        Method(name="process/completion_pending", request=ProcessRequest, reply=bool),
        Method(
            name="process/completion_delivered",
            request=CompletionDeliveredRequest,
            reply=ProcessRecord,
        ),
        Method(name="process/completion_mode", request=CompletionModeRequest, reply=ProcessRecord),
        Method(name="process/cleanup", reply=CleanupReply),
    )
}

CONTROL_METHODS = frozenset({"initialize", "cancel", "callback"})
"""What the machines handle themselves; a provider serves none of these."""

SERVED_METHODS = frozenset(
    name
    for name, method in METHODS.items()
    if method.direction == "to_worker" and name not in CONTROL_METHODS
)
"""What a provider may serve."""

REQUIRED_BY_CAPABILITY: dict[str, frozenset[str]] = {
    BYTES: frozenset({"file/read", "file/write", "input/write"}),
    PROCESS_START: frozenset({"process/start", "process/list"}),
}
"""The methods without which a capability must not be advertised."""
