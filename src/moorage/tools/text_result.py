"""Turn selected lines of a text file into what the model reads and what a program gets; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from moorage.tools.continuation import Continuation
from moorage.tools.results import failure, success
from moorage.tools.text_view import View, numbered_view

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.file_limits import FileLimits
    from moorage.workspace.text.line_range import LineRange

# Kept free in the view for the notes below the lines, besides the path in a continuation.
_NOTES_BYTES = 768


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for: the file as named and as found, and the content that is expected."""

    asked_path: str
    path: str
    limit: int | None
    continued: Continuation | None
    size: int


def text_result(selection: LineRange, reading: Reading, limits: FileLimits) -> ToolResult:
    """Return the result of reading ``selection``, or why it cannot be given."""
    problem = _problem(selection, reading, limits)
    if problem is not None:
        return problem
    data = selection.data
    if not selection.has_all:
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            return _line_too_long(selection, reading)
    text, broken = _decode(data)
    if len(text) * 6 > limits.structured_text_bytes and _is_too_long(text, limits):
        return _too_large(reading, limits)
    lines = data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
    room = limits.view_bytes - _NOTES_BYTES - 2 * len(reading.asked_path.encode())
    view = numbered_view(text, selection.start_line, max(room, limits.view_bytes // 2))
    structured = _structured(text, lines, selection, reading, view)
    structured["projection"] = _projection(view, lines, selection, reading, limits)
    if broken:
        structured["invalid_utf8_bytes"] = broken
    notes = _notes(structured, selection, view, lines)
    body = view.text if lines else f"({reading.path} is empty)"
    return success("\n".join((body, *notes)), structured)


def _problem(selection: LineRange, reading: Reading, limits: FileLimits) -> ToolResult | None:
    if reading.continued is not None and not reading.continued.fits(selection.digest):
        return failure(
            "stale_continuation",
            f"{reading.path} has changed since the result that the continuation belongs to. "
            "Read it again from the beginning.",
            path=reading.path,
            content_sha256=selection.digest,
        )
    if selection.start_line > max(1, selection.total_lines):
        return failure(
            "offset_past_end",
            f"{reading.path} has {selection.total_lines} lines; line {selection.start_line} is "
            "past its end.",
            path=reading.path,
            total_lines=selection.total_lines,
        )
    if reading.limit is None and not selection.has_all:
        return _too_large(reading, limits)
    return None


def _too_large(reading: Reading, limits: FileLimits) -> ToolResult:
    return failure(
        "too_large",
        f"{reading.path} has {reading.size} bytes; at most {limits.unlimited_read_bytes} are "
        "returned at once. Give offset and limit to read a range of lines.",
        path=reading.path,
        size_bytes=reading.size,
    )


def _line_too_long(selection: LineRange, reading: Reading) -> ToolResult:
    return failure(
        "line_too_long",
        f"Line {selection.start_line} of {reading.path} alone is longer than "
        f"{len(selection.data)} bytes. Use a command such as cut -c to see a part of it.",
        path=reading.path,
        start_line=selection.start_line,
    )


def _decode(data: bytes) -> tuple[str, int]:
    """Return the text and how many bytes of it are not UTF-8."""
    try:
        return data.decode(), 0
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        return text, len(data) - len(data.decode("utf-8", "ignore").encode())


def _is_too_long(text: str, limits: FileLimits) -> bool:
    # Control characters take six bytes each in JSON.
    return len(msgspec.json.encode(text)) > limits.structured_text_bytes


def _structured(
    text: str, lines: int, selection: LineRange, reading: Reading, view: View
) -> dict[str, Any]:
    start, total = selection.start_line, selection.total_lines
    end = start + lines - 1
    omitted = [
        {"start_line": first, "end_line": last}
        for first, last in ((1, start - 1), (end + 1, total))
        if first <= last
    ]
    has_more = end < total
    following = _token(reading, selection, end + 1) if has_more else ""
    return {
        "action": "read",
        "path": reading.path,
        "workspace_revision": "",
        "content_sha256": selection.digest,
        "text": text,
        "num_lines": lines,
        "start_line": start,
        "total_lines": total,
        "range": {"start_line": start, "end_line": end},
        "omitted_ranges": omitted,
        "truncated": not selection.has_all,
        "continuation": {"has_more": has_more, "next": following},
        "next_suggestions": ["read_file with this continuation"] if has_more else [],
    }


def _token(reading: Reading, selection: LineRange, line: int) -> str:
    return Continuation.of(reading.asked_path, selection.digest, line, reading.limit).encode()


def _projection(
    view: View, lines: int, selection: LineRange, reading: Reading, limits: FileLimits
) -> dict[str, Any]:
    omitted = lines - view.shown_lines
    recover: dict[str, Any] = {}
    if omitted:
        line = selection.start_line + view.shown_lines
        token = Continuation.of(reading.asked_path, selection.digest, line, omitted).encode()
        recover = {"tool": "read_file", "arguments": {"continuation": token}}
    return {
        "projected": omitted > 0 or view.is_line_cut,
        "budget_tokens": limits.view_tokens,
        "artifact_ref": "",
        "recover": recover,
        "omitted_lines": omitted,
        "shown_lines": view.shown_lines,
    }


def _notes(structured: dict[str, Any], selection: LineRange, view: View, lines: int) -> list[str]:
    notes = []
    shown_end = selection.start_line + view.shown_lines - 1
    projection = structured["projection"]
    if view.is_line_cut:
        notes.append(
            f"[line {shown_end} is longer than shown; see the rest with a command such as cut -c]"
        )
    if projection["omitted_lines"]:
        token = projection["recover"]["arguments"]["continuation"]
        notes.append(_more(shown_end, selection.start_line + lines - 1, selection, token))
    elif structured["continuation"]["has_more"]:
        token = structured["continuation"]["next"]
        notes.append(_more(shown_end, selection.total_lines, selection, token))
    if 0 < selection.crlf_count < selection.lf_count:
        notes.append(
            f"[{selection.crlf_count} of {selection.lf_count} lines end in CRLF, the others in LF;"
            " edit_file needs the exact ends]"
        )
    if structured.get("invalid_utf8_bytes"):
        notes.append(
            f"[{structured['invalid_utf8_bytes']} bytes are not UTF-8 and are shown as "
            "\N{REPLACEMENT CHARACTER}; do not write that character back]"
        )
    return notes


def _more(shown_end: int, last: int, selection: LineRange, token: str) -> str:
    return (
        f"[lines {shown_end + 1} to {last} of {selection.total_lines} are not shown; "
        f"continuation: {token}]"
    )
