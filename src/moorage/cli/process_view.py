"""How a background process is shown: as a row, as a JSON document, and in one sentence."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from moorage.cli import exit_codes
from moorage.cli.render import age, one_line, shortened
from moorage.protocol.processes import UNKNOWN_EXIT_CODE, ZERO_TIME

if TYPE_CHECKING:
    from moorage.protocol.processes import ProcessRecord

COLUMNS = ("SESSION", "ID", "STATE", "AGE", "PID", "TTY", "EXIT", "COMMAND")
COLOURS = {"running": "green", "starting": "green", "stopping": "yellow", "failed": "red"}
_COMMAND_CHARACTERS = 60


def row(record: ProcessRecord, session: str) -> tuple[str, ...]:
    """Return the cells of one process."""
    code = exit_code(record)
    unknown = "?" if record.is_terminal else "-"
    return (
        session,
        record.id,
        record.status,
        age(age_seconds(record)),
        "-" if record.is_terminal else str(record.pid),
        "yes" if record.tty else "no",
        unknown if code is None else str(code),
        record.command,
    )


def as_document(record: ProcessRecord, session_id: str, name: str = "") -> dict[str, Any]:
    """Return a process as its JSON document; the keys are the same in every state."""
    return {
        "id": record.id,
        "session": session_id,
        "session_name": name,
        "state": record.status,
        "cause": record.terminal_cause,
        "exit_code": exit_code(record),
        "age_seconds": round(age_seconds(record), 3),
        "pid": None if record.is_terminal else record.pid,
        "tty": record.tty,
        "command": record.command,
        "cwd": record.cwd,
        "lifecycle": record.lifecycle,
        "completion_mode": record.completion_mode,
        "started_at": record.started_at,
        "stopped_at": None if record.stopped_at == ZERO_TIME else record.stopped_at,
        "total_bytes": record.total_bytes if record.is_terminal else None,
        "log_sha256": record.log_sha256,
        "error": record.last_error,
    }


def exit_code(record: ProcessRecord) -> int | None:
    """Return the exit code of a process that ended, when it is known."""
    if not record.is_terminal or record.exit_code == UNKNOWN_EXIT_CODE:
        return None
    return record.exit_code


def exit_code_for_caller(record: ProcessRecord) -> int:
    """Return the exit code to pass on; an unknown end is our own failure."""
    code = exit_code(record)
    return exit_codes.OWN_FAILURE if code is None else code


def how_it_ended(record: ProcessRecord) -> str:
    """Return the sentence that says how a process ended."""
    named = f"{record.id} ({short_command(record)})"
    if not record.is_terminal:
        return f"{named} is {record.status}."
    was_stopped = record.terminal_cause == "requested_stop"
    code = exit_code(record)
    if code is None:
        reason = f" {record.last_error}" if record.last_error else ""
        return f"{named} ended; how is unknown.{reason}"
    how = "was stopped" if was_stopped else "ended"
    signal = f", by signal {code - exit_codes.SIGNALLED}" if code > exit_codes.SIGNALLED else ""
    return f"{named} {how} with exit code {code}{signal}."


def short_command(record: ProcessRecord) -> str:
    """Return the command as one short line."""
    return shortened(one_line(record.command), _COMMAND_CHARACTERS)


def age_seconds(record: ProcessRecord) -> float:
    """Return how long ago the process was started."""
    try:
        started = datetime.fromisoformat(record.started_at)
    except ValueError:
        return 0.0
    return max((datetime.now(UTC) - started).total_seconds(), 0.0)
