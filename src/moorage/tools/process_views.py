"""What a model reads of a background command: short plain text, one kind per action. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.policy.permission import PermissionMode
from moorage.process.output import clean
from moorage.protocol.processes import UNKNOWN_EXIT_CODE, OutputSnapshot, ProcessRecord
from moorage.tools.denials import guidance

NO_NEW_OUTPUT = "(no new output)"
NO_PROCESSES = "No background processes in this session."

_LONGEST_COMMAND = 200


def state_of(record: ProcessRecord) -> str:
    """Return what has become of a process, in a few words."""
    if not record.is_terminal:
        return record.status
    if record.terminal_cause == "requested_stop":
        return "stopped on request"
    if record.exit_code == UNKNOWN_EXIT_CODE:
        return "ended, exit code unknown"
    return f"exited with code {record.exit_code}"


def started_view(record: ProcessRecord) -> str:
    """Return the view of a start."""
    return (
        f"Started {record.id} in the background ({record.status}). "
        f"Read its output with action=read, process_id={record.id}."
    )


def read_view(snapshot: OutputSnapshot) -> str:
    """Return the view of a window of output."""
    record = snapshot.process
    text = clean(snapshot.output).text or NO_NEW_OUTPUT
    where = f"bytes {snapshot.start_offset} to {snapshot.end_offset} of {snapshot.total_bytes}"
    parts = [f"{record.id}: {state_of(record)}", text]
    if record.is_terminal and record.last_error:
        parts.append(record.last_error)
    if record.sandbox_denied:
        is_reading = record.sandbox_mode == "read-only"
        parts.append(guidance(PermissionMode.READ_ONLY if is_reading else PermissionMode.STANDARD))
    parts.append(f"({where}; next offset_bytes: {snapshot.end_offset})")
    return "\n".join(parts)


def written_view(record: ProcessRecord, number: int, asked: int) -> str:
    """Return the view of input that was sent."""
    if number < asked:
        return f"Wrote {number} of {asked} bytes to {record.id}; it does not read the rest."
    return f"Wrote {number} bytes to {record.id}."


def stopped_view(record: ProcessRecord) -> str:
    """Return the view of a stop."""
    return f"{record.id}: {state_of(record)}"


def updated_view(record: ProcessRecord) -> str:
    """Return the view of a changed completion mode."""
    return f"{record.id}: completion_mode is {record.completion_mode}"


def list_view(records: Iterable[ProcessRecord]) -> str:
    """Return the view of all processes of a session, one line each."""
    return "\n".join(map(_line, records)) or NO_PROCESSES


def _line(record: ProcessRecord) -> str:
    command = " ".join(record.command.split())
    if len(command) > _LONGEST_COMMAND:
        command = f"{command[:_LONGEST_COMMAND]}..."
    suffix = " (detached)" if record.completion_mode == "detached" else ""
    return f"{record.id}  {state_of(record)}  {command}{suffix}"
