"""What the typed methods of a session return."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from moorage.errors import RemoteProtocolViolation, ToolFailed
from moorage.protocol.processes import EventType, ProcessRecord, TerminalCause
from moorage.protocol.tool_calls import ToolResult

T = TypeVar("T")

Count = Annotated[int, Meta(ge=0)]

Outcome = Literal[
    "exited", "signalled", "timed_out", "promoted", "cancelled", "environment_died", "unknown"
]


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended and what it printed.

    ``exit_code`` is 128 + n after signal n, and -1 when the command was ended or its end is not
    known. ``stdout`` and ``stderr`` are decoded with replacement characters and bounded; the counts
    are true. ``stdout_data`` and ``stderr_data`` are the bytes themselves.
    """

    outcome: Outcome
    exit_code: int
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    duration_ms: int
    promoted_process_id: str = ""
    full_log_ref: str = ""
    full_log_error: str = ""
    left_running: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_data: bytes = b""
    stderr_data: bytes = b""
    envelope: dict[str, Any] = {}


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file, or of a range of its lines (counted from 1)."""

    path: str
    text: str
    content_sha256: str
    start_line: Count
    num_lines: Count
    total_lines: Count
    truncated: bool = False
    continuation: dict[str, Any] | None = None


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """One file that a tool created, overwrote or edited; hashes are ``sha256:`` and hexadecimal."""

    action: Literal["create", "overwrite", "edit"]
    path: str
    old_sha256: str = ""
    new_sha256: str = ""
    diff: dict[str, Any] = {}
    replacements: int = 0


class FileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """One successful edit or write; ``sequence`` counts the session's events from 1."""

    sequence: int
    change: FileChange


class ProcessChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened to a background process; a hint, its record is the truth."""

    sequence: int
    type: EventType
    cause: TerminalCause
    process: ProcessRecord


SessionEvent = FileChanged | ProcessChanged


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a published file that the host keeps."""

    name: str
    path: Path
    sha256: str
    size_bytes: int


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of the envelope of a command; the worker may say anything, so all is checked."""

    outcome: Outcome = "unknown"
    exit_code: Annotated[int, Meta(ge=-1, le=255)] = -1
    stdout: str = ""
    stderr: str = ""
    stdout_bytes: Count = 0
    stderr_bytes: Count = 0
    duration_ms: Count = 0
    promoted_process_id: str = ""
    full_log_ref: str = ""
    full_log_error: str = ""
    left_running: Count = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_base64: bytes | None = None
    stderr_base64: bytes | None = None
    full_log_omitted_bytes: Count = 0
    full_log_sections: dict[str, Count] | None = None


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of the account of a write or an edit."""

    action: Literal["create", "overwrite", "edit"]
    path: str
    old_file_sha: str = ""
    new_file_sha: str = ""
    diff: dict[str, Any] = {}
    replacements: Count = 0


def command_result(envelope: dict[str, Any]) -> CommandResult:
    """Return the command's result that stands in the envelope of a ``bash`` call.

    Raises:
        RemoteProtocolViolation: the envelope is malformed.
    """
    told = _told(envelope, _Envelope, "bash")
    return CommandResult(
        outcome=told.outcome,
        exit_code=told.exit_code,
        stdout=told.stdout,
        stderr=told.stderr,
        stdout_bytes=told.stdout_bytes,
        stderr_bytes=told.stderr_bytes,
        duration_ms=told.duration_ms,
        promoted_process_id=told.promoted_process_id,
        full_log_ref=told.full_log_ref,
        full_log_error=told.full_log_error,
        left_running=told.left_running,
        stdout_truncated=told.stdout_truncated,
        stderr_truncated=told.stderr_truncated,
        stdout_data=_data(told.stdout_base64, told.stdout),
        stderr_data=_data(told.stderr_base64, told.stderr),
        envelope=envelope,
    )


def file_change(structured: dict[str, Any]) -> FileChange | None:
    """Return the change that a tool result tells of, or ``None`` when it tells of none.

    Raises:
        RemoteProtocolViolation: it tells of one, and not how.
    """
    # Compared one by one: what the worker says need not be hashable.
    if structured.get("action") not in ("create", "overwrite", "edit"):
        return None
    told = _told(structured, _Change, str(structured["action"]))
    return FileChange(
        action=told.action,
        path=told.path,
        old_sha256=told.old_file_sha,
        new_sha256=told.new_file_sha,
        diff=told.diff,
        replacements=told.replacements,
    )


def file_text(result: ToolResult) -> FileText:
    """Return the text that a ``read_file`` result carries.

    Raises:
        ToolFailed: the file is an image.
        RemoteProtocolViolation: the result is malformed.
    """
    structured = result.structured_content
    if structured is not None and structured.get("action") == "read_image":
        raise ToolFailed(
            f"read_file: {structured.get('path')} is an image, and has no text.",
            result=result,
            hint="Read it with read_bytes.",
        )
    return _told(structured, FileText, "read_file")


def _told(structured: object, expected: type[T], tool_name: str) -> T:
    try:
        return msgspec.convert(structured, expected)
    except msgspec.ValidationError as error:
        raise RemoteProtocolViolation(
            f"the worker's result of {tool_name} is malformed: {error}.",
            hint="What was asked for may have happened; look before you repeat it.",
        ) from error


def _data(encoded: bytes | None, text: str) -> bytes:
    return text.encode() if encoded is None else encoded
