"""What a person, a pipe or a script gets of a command's result."""

from __future__ import annotations

import base64
import select
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from moorage.cli import exit_codes
from moorage.cli.render import count, duration, print_note
from moorage.errors import ExecutionError

if TYPE_CHECKING:
    from moorage.host.results import CommandResult
    from moorage.host.session import Session


class Streams(NamedTuple):
    """The bytes of both streams, and whether they are all that the command wrote."""

    stdout: bytes
    stderr: bytes
    is_whole: bool


def as_document(result: CommandResult, session_id: str) -> dict[str, Any]:
    """Return a result as its JSON document; the keys are the same for every outcome."""
    return {
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "duration_ms": result.duration_ms,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "stdout_base64": _base64_unless_text(result.stdout_data),
        "stderr_base64": _base64_unless_text(result.stderr_data),
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
        "stdout_truncated": result.stdout_truncated,
        "stderr_truncated": result.stderr_truncated,
        "full_log_ref": result.full_log_ref,
        "left_running": result.left_running,
        "promoted_process_id": result.promoted_process_id,
        "session": session_id,
        "error": None,
    }


def _base64_unless_text(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
    return None


async def whole_streams(session: Session, result: CommandResult) -> Streams:
    """Return all that the command wrote; what the result left out comes from its full log."""
    if not (result.stdout_truncated or result.stderr_truncated):
        return Streams(result.stdout_data, result.stderr_data, is_whole=True)
    sections = result.envelope.get("full_log_sections")
    if result.full_log_ref and isinstance(sections, Mapping):
        try:
            log = await session.read_bytes(result.full_log_ref)
        except ExecutionError:
            return Streams(result.stdout_data, result.stderr_data, is_whole=False)
        return Streams(_section(log, sections, "stdout"), _section(log, sections, "stderr"), True)
    return Streams(result.stdout_data, result.stderr_data, is_whole=False)


def _section(log: bytes, sections: Mapping[str, int], name: str) -> bytes:
    return log[sections[f"{name}_start"] : sections[f"{name}_end"]]


def write_streams(streams: Streams) -> None:
    """Write each stream where it belongs, byte for byte."""
    for place, data in ((sys.stdout, streams.stdout), (sys.stderr, streams.stderr)):
        place.flush()
        _write_all(place.buffer, data)


def _write_all(stream: BinaryIO, data: bytes) -> None:
    """Write to the end: an unbuffered stream takes a part, a non-blocking one may take nothing."""
    raw = getattr(stream, "raw", stream)
    rest = memoryview(data)
    while rest:
        written = raw.write(rest)
        if written is None:
            select.select([], [raw], [])
        rest = rest[written or 0 :]


def print_notes(result: CommandResult, words: Sequence[str], *, is_whole: bool) -> None:
    """Say what a person should know beyond the output and the exit code."""
    for note in notes(result, words, is_whole=is_whole):
        print_note(note)


def notes(result: CommandResult, words: Sequence[str], *, is_whole: bool) -> list[str]:
    """Return the remarks on a result; ``words`` is the command line as it was given."""
    found = []
    if result.outcome == "timed_out":
        found.append(
            f"timed out after {duration(result.duration_ms)} and ended with all it started; "
            "--timeout gives longer."
        )
    if result.left_running:
        what = count(result.left_running, "background process", "background processes")
        found.append(f"{what} ended with this session.")
    if not is_whole:
        written = f"{result.stdout_bytes:,} and {result.stderr_bytes:,} bytes"
        where = f" The full log is {result.full_log_ref}." if result.full_log_ref else ""
        found.append(f"the output was cut; the command wrote {written}.{where}")
    if result.exit_code == exit_codes.NOT_FOUND and len(words) == 1 and " " in words[0]:
        found.append(
            f"one word is one name; for shell text use: moorage run -c {shlex.quote(words[0])}"
        )
    return found
