"""Cut a range of lines out of a stream of bytes and count and hash all of it on the way; pure."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec


class LineRange(msgspec.Struct, frozen=True, kw_only=True):
    """The selected lines, with their ends, and what the whole is like.

    ``has_all`` is false when ``most_bytes`` ended the selection early; the last line may then be
    cut.
    """

    data: bytes
    start_line: int
    total_lines: int
    digest: str
    has_all: bool
    crlf_count: int
    lf_count: int


class _Cutter:
    """Collects the lines from ``start_line`` on, at most ``limit`` of them."""

    def __init__(self, start_line: int, limit: int | None, most_bytes: int) -> None:
        self._before = start_line - 1
        self._last = None if limit is None else start_line - 1 + limit
        self._room = most_bytes
        self._parts: list[bytes] = []
        self.ends = 0
        self.has_all = True

    def feed(self, step: bytes) -> None:
        count = step.count(b"\n")
        begin = _after_end(step, self._before - self.ends, count)
        finish = len(step)
        if self._last is not None:
            finish = _after_end(step, self._last - self.ends, count)
        self.ends += count
        if begin >= finish or not self.has_all:
            return
        part = step[begin:finish] if (begin, finish) != (0, len(step)) else step
        if len(part) > self._room:
            part, self.has_all = part[: self._room], False
        self._room -= len(part)
        self._parts.append(part)

    def selected(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def select_lines(
    steps: Iterable[bytes], start_line: int, limit: int | None, most_bytes: int
) -> LineRange:
    """Return ``limit`` lines (all without it) from ``start_line``, counted from 1.

    Only LF ends a line.
    """
    cutter = _Cutter(start_line, limit, most_bytes)
    digest = sha256(usedforsecurity=False)
    crlf_count = 0
    last = b""
    for step in steps:
        digest.update(step)
        cutter.feed(step)
        if b"\r" in step or last == b"\r":
            crlf_count += step.count(b"\r\n") + (last == b"\r" and step[:1] == b"\n")
        last = step[-1:] or last
    return LineRange(
        data=cutter.selected(),
        start_line=start_line,
        total_lines=cutter.ends + (last not in (b"", b"\n")),
        digest=digest.hexdigest(),
        has_all=cutter.has_all,
        crlf_count=crlf_count,
        lf_count=cutter.ends,
    )


def _after_end(step: bytes, wanted: int, count: int) -> int:
    """Return the offset after the ``wanted``-th line end, or the length when it is not there."""
    if wanted <= 0:
        return 0
    if wanted > count:
        return len(step)
    offset = 0
    for _ in range(wanted):
        offset = step.index(b"\n", offset) + 1
    return offset
