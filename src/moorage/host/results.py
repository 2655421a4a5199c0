"""What the typed methods of a session return."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Literal

import msgspec

from moorage.protocol.tool_calls import ToolResult

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
    start_line: int
    num_lines: int
    total_lines: int
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


SessionEvent = FileChanged


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a published file that the host keeps."""

    name: str
    path: Path
    sha256: str
    size_bytes: int


def command_result(envelope: dict[str, Any]) -> CommandResult:
    """Return the command's result that stands in the envelope of a ``bash`` call."""
    stdout, stderr = envelope.get("stdout", ""), envelope.get("stderr", "")
    return CommandResult(
        outcome=envelope.get("outcome", "unknown"),
        exit_code=envelope.get("exit_code", -1),
        stdout=stdout,
        stderr=stderr,
        stdout_bytes=envelope.get("stdout_bytes", 0),
        stderr_bytes=envelope.get("stderr_bytes", 0),
        duration_ms=envelope.get("duration_ms", 0),
        promoted_process_id=envelope.get("promoted_process_id", ""),
        full_log_ref=envelope.get("full_log_ref", ""),
        full_log_error=envelope.get("full_log_error", ""),
        left_running=envelope.get("left_running", 0),
        stdout_truncated=envelope.get("stdout_truncated", False),
        stderr_truncated=envelope.get("stderr_truncated", False),
        stdout_data=_data(envelope, "stdout_base64", stdout),
        stderr_data=_data(envelope, "stderr_base64", stderr),
        envelope=envelope,
    )


def file_change(structured: dict[str, Any]) -> FileChange | None:
    """Return the change that a tool result tells of, or ``None`` when it tells of none."""
    if structured.get("action") not in {"create", "overwrite", "edit"}:
        return None
    return FileChange(
        action=structured["action"],
        path=structured.get("path", ""),
        old_sha256=structured.get("old_file_sha", ""),
        new_sha256=structured.get("new_file_sha", ""),
        diff=structured.get("diff", {}),
        replacements=structured.get("replacements", 0),
    )


def file_text(result: ToolResult) -> FileText:
    """Return the text that a ``read_file`` result carries."""
    return msgspec.convert(result.structured_content, FileText)


def _data(envelope: dict[str, Any], key: str, text: str) -> bytes:
    encoded = envelope.get(key)
    return base64.b64decode(encoded) if encoded is not None else text.encode()
