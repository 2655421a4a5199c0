"""Describe a change as hunks of lines; pure. Where it lies is known from how it was made.

No general comparison of two texts happens here: an edit knows its matches, and a rewrite is one
change between the lines that both versions begin and end with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

CONTEXT_LINES = 3
MAX_SIDE_BYTES = 32 * 1024
"""More than this is not shown: a diff is for a glance, the file is there to be read."""


class Span(msgspec.Struct, frozen=True):
    """A change in bytes: ``old[old_start:old_end]`` became ``new[new_start:new_end]``."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def edit_spans(starts: Iterable[int], old_length: int, new_length: int) -> list[Span]:
    """Return the changes of an edit whose matches begin at ``starts``, in ascending order."""
    growth = new_length - old_length
    return [
        Span(start, start + old_length, start + count * growth, start + count * growth + new_length)
        for count, start in enumerate(starts)
    ]


def describe_edit(
    old: bytes, new: bytes, spans: Iterable[Span], *, is_complete: bool = True
) -> dict[str, Any]:
    """Return the diff object of an edit, with hunks around each change.

    Without all of its changes (``is_complete``) no hunk is shown, as with too many of them.
    """
    changes = [change for change in _whole_lines(old, new, spans) if _is_change(change)]
    return _describe(old, new, _hunks(old, new, changes) if is_complete else None)


def describe_rewrite(old: bytes, new: bytes, *, is_new_file: bool = False) -> dict[str, Any]:
    """Return the diff object of a file that was written as a whole: one hunk, if it is short."""
    hunks: list[dict[str, Any]] | None = None
    if max(len(old), len(new)) <= MAX_SIDE_BYTES:
        change = _trimmed(old, new, Span(0, len(old), 0, len(new)))
        hunks = _hunks(old, new, [change] if _is_change(change) else [])
    return _describe(old, new, hunks, is_new_file=is_new_file)


def describe_unseen(old_lines: int, new: bytes) -> dict[str, Any]:
    """Return the diff object of a rewrite of a file too long to be kept."""
    return _summed_up(old_lines, count_lines(new))


def count_lines(data: bytes) -> int:
    """Return how many lines ``data`` has; an end without a line end counts as one."""
    return data.count(b"\n") + (not data.endswith(b"\n") if data else 0)


def _describe(
    old: bytes, new: bytes, hunks: list[dict[str, Any]] | None, *, is_new_file: bool = False
) -> dict[str, Any]:
    old_lines, new_lines = count_lines(old), count_lines(new)
    if hunks is None:
        return {**_summed_up(old_lines, new_lines), "new_file": is_new_file}
    ops = [line["op"] for hunk in hunks for line in hunk["lines"]]
    return {
        "hunks": hunks,
        "new_file": is_new_file,
        "old_lines": old_lines,
        "new_lines": new_lines,
        "truncated": False,
        "summary": f"+{ops.count('insert')} -{ops.count('delete')} lines",
    }


def _summed_up(old_lines: int, new_lines: int) -> dict[str, Any]:
    return {
        "hunks": [],
        "new_file": False,
        "old_lines": old_lines,
        "new_lines": new_lines,
        "truncated": True,
        "summary": f"too long to show: {old_lines} lines became {new_lines}",
    }


def _is_change(span: Span) -> bool:
    return span.old_start < span.old_end or span.new_start < span.new_end


def _whole_lines(old: bytes, new: bytes, spans: Iterable[Span]) -> list[Span]:
    """Return the changes widened to whole lines; those that share a line become one."""
    merged: list[Span] = []
    for span in spans:
        start = old.rfind(b"\n", 0, span.old_start) + 1
        line_end = old.find(b"\n", span.old_end)
        end = len(old) if line_end < 0 else line_end + 1
        wide = Span(
            start,
            end,
            span.new_start - (span.old_start - start),
            span.new_end + (end - span.old_end),
        )
        if merged and wide.old_start < merged[-1].old_end:
            last = merged.pop()
            wide = Span(last.old_start, wide.old_end, last.new_start, wide.new_end)
        merged.append(wide)
    return [_trimmed(old, new, span) for span in merged]


def _trimmed(old: bytes, new: bytes, span: Span) -> Span:
    """Leave out the lines that both sides begin and end with."""
    ours = _split(old[span.old_start : span.old_end])
    theirs = _split(new[span.new_start : span.new_end])
    most = min(len(ours), len(theirs))
    head = next((at for at in range(most) if ours[at] != theirs[at]), most)
    most -= head
    tail = next((at for at in range(most) if ours[-1 - at] != theirs[-1 - at]), most)
    head_bytes = sum(map(len, ours[:head]))
    tail_bytes = sum(map(len, ours[len(ours) - tail :]))
    return Span(
        span.old_start + head_bytes,
        span.old_end - tail_bytes,
        span.new_start + head_bytes,
        span.new_end - tail_bytes,
    )


def _hunks(old: bytes, new: bytes, changes: list[Span]) -> list[dict[str, Any]] | None:
    """Return the hunks, or None when they are too long to show."""
    hunks: list[dict[str, Any]] = []
    size = line = offset = growth = 0
    for group in _groups(old, changes):
        start = _back(old, group[0].old_start, CONTEXT_LINES)
        end = _forward(old, group[-1].old_end, CONTEXT_LINES)
        size += max(end - start, group[-1].new_end - group[0].new_start)
        if size > MAX_SIDE_BYTES:
            return None
        line += old.count(b"\n", offset, start)
        offset = start
        lines = _hunk_lines(old, new, group, (start, end))
        counts = {op: sum(entry["op"] == op for entry in lines) for op in ("delete", "insert")}
        hunks.append(
            {
                # As in a unified diff, a side without any line begins at line 0.
                "old_start": line + 1 if old else 0,
                "new_start": line + growth + 1 if new else 0,
                "lines": lines,
            }
        )
        growth += counts["insert"] - counts["delete"]
    return hunks


def _groups(old: bytes, changes: list[Span]) -> list[list[Span]]:
    """Return the changes in groups whose contexts touch."""
    groups: list[list[Span]] = []
    for change in changes:
        last = groups[-1][-1].old_end if groups else None
        if last is not None and old.count(b"\n", last, change.old_start) <= 2 * CONTEXT_LINES:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk_lines(
    old: bytes, new: bytes, group: list[Span], bounds: tuple[int, int]
) -> list[dict[str, str]]:
    position, end = bounds
    lines: list[dict[str, str]] = []
    for change in group:
        lines += _marked("equal", old[position : change.old_start])
        lines += _marked("delete", old[change.old_start : change.old_end])
        lines += _marked("insert", new[change.new_start : change.new_end])
        position = change.old_end
    return lines + _marked("equal", old[position:end])


def _marked(op: str, data: bytes) -> list[dict[str, str]]:
    return [
        {"op": op, "content": line.rstrip(b"\r\n").decode("utf-8", "replace")}
        for line in _split(data)
    ]


def _split(data: bytes) -> list[bytes]:
    """Return the lines of ``data`` with their ends; only LF ends a line."""
    *lines, rest = data.split(b"\n")
    whole = [line + b"\n" for line in lines]
    return [*whole, rest] if rest else whole


def _back(data: bytes, offset: int, lines: int) -> int:
    for _ in range(lines):
        if offset == 0:
            return 0
        offset = data.rfind(b"\n", 0, offset - 1) + 1
    return offset


def _forward(data: bytes, offset: int, lines: int) -> int:
    for _ in range(lines):
        end = data.find(b"\n", offset)
        if end < 0:
            return len(data)
        offset = end + 1
    return offset
