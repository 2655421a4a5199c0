"""What a person, a pipe or a script gets of a command's result."""

from __future__ import annotations

import base64
import select
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

from moorage.cli import exit_codes
from moorage.cli.render import count, duration, print_note
from moorage.errors import ExecutionError

if TYPE_CHECKING:
    from moorage.host.results import CommandResult
    from moorage.host.session import Session


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
        "full_log_error": result.envelope.get("full_log_error", ""),
        "full_log_omitted_bytes": result.envelope.get("full_log_omitted_bytes", 0),
        "left_running": result.left_running,
        "promoted_process_id": result.promoted_process_id,
        "background": [],
        "session": session_id,
        "error": None,
    }


def _base64_unless_text(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
    return None


class Written(NamedTuple):
    """Whether all that the command wrote was passed on, and if not, one sentence about the rest."""

    is_whole: bool
    reason: str = ""


async def write_output(session: Session, result: CommandResult) -> Written:
    """Write each stream where it belongs, whole where that can be had.

    What the result left out comes from its full log, in pieces: no size of output needs memory.
    """
    if not (result.stdout_truncated or result.stderr_truncated):
        _write_kept(result)
        return Written(is_whole=True)
    sections = _sections(result)
    if sections is None:
        _write_kept(result)
        return Written(is_whole=False, reason=_why_no_log(result))
    return await _write_log(session, result, sections)


async def _write_log(
    session: Session, result: CommandResult, sections: Sequence[Section]
) -> Written:
    at = 0
    is_begun = False
    try:
        async for piece in session.read_pieces(result.full_log_ref):
            for place, data in _cut(piece, at, sections):
                _write(place, data)
                is_begun = True
            at += len(piece)
    except ExecutionError as error:
        if not is_begun:
            _write_kept(result)
        reason = f"The full log {result.full_log_ref} cannot be read: {error}"
        return Written(is_whole=False, reason=reason)
    if at < max(end for _, end, _ in sections):
        reason = f"The full log {result.full_log_ref} has lost its end."
        return Written(is_whole=False, reason=reason)
    omitted = result.envelope.get("full_log_omitted_bytes", 0)
    reason = f"The full log is bounded and lacks {omitted:,} of them." if omitted else ""
    return Written(is_whole=not omitted, reason=reason)


Section = tuple[int, int, TextIO]
"""Where in the full log a stream begins and ends, and where it is to be written."""


def _sections(result: CommandResult) -> list[Section] | None:
    """Return the sections of the full log, or ``None`` when it cannot be used."""
    offsets = result.envelope.get("full_log_sections")
    if not (result.full_log_ref and isinstance(offsets, Mapping)):
        return None
    places = {"stdout": sys.stdout, "stderr": sys.stderr}
    try:
        return [
            (int(offsets[f"{name}_start"]), int(offsets[f"{name}_end"]), place)
            for name, place in places.items()
        ]
    except KeyError:  # the host has checked that what is there are counts
        return None


def _cut(piece: bytes, at: int, sections: Sequence[Section]) -> Iterator[tuple[TextIO, bytes]]:
    """Yield what a piece, which begins ``at`` in the log, holds of each section."""
    for start, end, place in sections:
        data = piece[max(start - at, 0) : max(end - at, 0)]
        if data:
            yield place, data


def _why_no_log(result: CommandResult) -> str:
    reason = str(result.envelope.get("full_log_error", ""))
    if reason:
        return f"There is no full log: {reason.rstrip('.')}."
    return f"The full log is {result.full_log_ref}." if result.full_log_ref else ""


def _write_kept(result: CommandResult) -> None:
    """Write what the result itself holds."""
    _write(sys.stdout, result.stdout_data)
    _write(sys.stderr, result.stderr_data)


def _write(place: TextIO, data: bytes) -> None:
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


def print_notes(result: CommandResult, words: Sequence[str], written: Written) -> None:
    """Say what a person should know beyond the output and the exit code."""
    for note in notes(result, words, written):
        print_note(note)


def notes(result: CommandResult, words: Sequence[str], written: Written) -> list[str]:
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
    if not written.is_whole:
        sizes = f"{result.stdout_bytes:,} and {result.stderr_bytes:,} bytes"
        cut = f"the output was cut; the command wrote {sizes}."
        found.append(f"{cut} {written.reason}".rstrip())
    found += _on_a_denial(result)
    if result.exit_code == exit_codes.NOT_FOUND and len(words) == 1 and " " in words[0]:
        found.append(
            f"one word is one name; for shell text use: moorage run -c {shlex.quote(words[0])}"
        )
    return found


def _on_a_denial(result: CommandResult) -> list[str]:
    """Say what opens the way after the confinement stopped a command, as it seems."""
    sandbox = result.envelope.get("sandbox")
    if not (isinstance(sandbox, Mapping) and sandbox.get("denied")):
        return []
    if sandbox.get("mode") == "read_only":
        return [
            "denied by the confinement, as it seems: in the mode read_only nothing in the "
            "workspace may be written; --mode standard allows it, there and below --writable DIR."
        ]
    return [
        "denied by the confinement, as it seems: only the workspace may be written; "
        "--writable DIR adds a folder, --mode unconfined lifts the confinement."
    ]
