"""What a searching program prints, read piece by piece. Pure.

The program may be anything that was put on PATH under ripgrep's name. So a record has a greatest
size, what is no record is an error, and no reading takes more than linear time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.workspace.search.hits import Line, Sheet

_BEGIN = b'{"type":"begin"'
_MATCH = b'{"type":"match"'
_CONTEXT = b'{"type":"context"'
_END = b'{"type":"end"'
_IS_TEXT = b'"binary_offset":null'
# With what follows it, so that no number is read in part.
_NUMBER = re.compile(rb'\},"line_number":(\d{1,18})(?=,)')
_START = re.compile(rb'"start":(\d{1,18})')
# A line in JSON with all its matches; of a longer one only the beginning is looked at.
_MAX_JSON_LINE = 4 * 1024 * 1024
# No path is longer than 4 KiB, and no count has more than 20 digits.
MAX_RECORD_BYTES = 64 * 1024
_MAX_DIGITS = 18


class Garbled(Exception):
    """What was printed is no output of a search."""


class _Bytes(msgspec.Struct):
    """Text, or base64 of what is no UTF-8."""

    text: str = ""
    raw: bytes | None = msgspec.field(default=None, name="bytes")


_Number = Annotated[int, Meta(ge=0, le=10**_MAX_DIGITS)]


class _Submatch(msgspec.Struct):
    start: _Number


class _LineData(msgspec.Struct):
    lines: _Bytes
    line_number: _Number
    submatches: list[_Submatch]


class _LineMessage(msgspec.Struct):
    type: str
    data: _LineData


class _PathData(msgspec.Struct):
    path: _Bytes


class _PathMessage(msgspec.Struct):
    data: _PathData


_line_decoder = msgspec.json.Decoder(_LineMessage)
_MALFORMED = (msgspec.DecodeError, UnicodeError, RecursionError)
_path_decoder = msgspec.json.Decoder(_PathMessage)


def file_counts(output: bytes, *, with_binary: bool) -> list[tuple[bytes, int]]:
    """Return the matching lines per file in a whole output in JSON.

    Raises:
        Garbled: it is none.
    """
    counts: list[tuple[bytes, int]] = []
    path, matches = b"", 0
    for line in output.split(b"\n"):
        if line.startswith(_MATCH):
            matches += 1
        elif line.startswith(_BEGIN):
            path, matches = _path_in(line), 0
        elif line.startswith(_END) and (with_binary or _IS_TEXT in line):
            counts.append((path, matches))
    return counts


class CountStream:
    """Reads counts: path, NUL, count, line end."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._rest = b""

    def feed(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """Take the next bytes of output and return the files that are complete.

        Raises:
            Garbled: they are no counts.
        """
        buffer = self._rest + chunk
        begin = 0
        counts: list[tuple[bytes, int]] = []
        while (nul := buffer.find(b"\0", begin)) >= 0 and (end := buffer.find(b"\n", nul)) >= 0:
            digits = buffer[nul + 1 : end]
            if not digits.isdigit() or len(digits) > _MAX_DIGITS:
                raise Garbled
            counts.append((buffer[begin:nul].removeprefix(b"./"), int(digits)))
            begin = end + 1
        self._rest = _bounded(buffer[begin:])
        return counts


class PathStream:
    """Reads paths: each has a NUL behind it."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes of output and return the paths that are complete.

        Raises:
            Garbled: they are no paths.
        """
        *paths, rest = (self._rest + chunk).split(b"\0")
        self._rest = _bounded(rest)
        return [path.removeprefix(b"./") for path in paths]


class JsonStream:
    """Reads lines in JSON, one message each."""

    def __init__(self, sheets: Mapping[bytes, Sheet]) -> None:
        """Keep where the lines of each file go."""
        self._sheets = sheets
        self._sheet: Sheet | None = None
        self._rest = b""
        self._long: _LongLine | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of output.

        Raises:
            Garbled: they are no messages.
        """
        if self._long is not None:
            chunk = self._pass_long_line(self._long, chunk)
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._take(line)
        if len(rest) > _MAX_JSON_LINE:
            self._long = _LongLine(rest)
            rest = b""
        self._rest = rest

    def _pass_long_line(self, line: _LongLine, chunk: bytes) -> bytes:
        """Go on with a line that is too long to hold; return what follows it."""
        end = chunk.find(b"\n")
        line.feed(chunk if end < 0 else chunk[:end])
        if end < 0:
            return b""
        self._long = None
        if self._sheet is not None:
            self._sheet.add(line.line)
        return chunk[end + 1 :]

    def _take(self, line: bytes) -> None:
        if line.startswith(_BEGIN):
            self._sheet = self._sheets.get(_path_in(line))
        elif self._sheet is None:
            return
        elif line.startswith(_END):
            self._sheet.is_binary = _IS_TEXT not in line
            self._sheet = None
        else:
            self._sheet.add(_line_in(line))


class _LongLine:
    """A line that goes by: its text if that is whole at the beginning, else only its number."""

    def __init__(self, start: bytes) -> None:
        if not start.startswith((_MATCH, _CONTEXT)):
            raise Garbled
        self._tail = b""
        self._is_numbered = False
        found = _NUMBER.search(start)
        if found is None:
            self.line = Line(0, b"", start.startswith(_MATCH), is_too_long=True)
            self.feed(start)
            return
        self._is_numbered = True
        match_at = _START.search(start, found.end())
        matches = b'[{"start":%b}]' % (match_at[1] if match_at is not None else b"0")
        self.line = _line_in(b'%b,"submatches":%b}}' % (start[: found.end()], matches))

    def feed(self, part: bytes) -> None:
        """Go on; somewhere behind the text comes the number."""
        if self._is_numbered:
            return
        window = self._tail + part
        found = _NUMBER.search(window)
        if found is not None:
            self._is_numbered = True
            self.line = self.line._replace(number=int(found[1]))
        self._tail = window[-64:]


def _bounded(rest: bytes) -> bytes:
    if len(rest) > MAX_RECORD_BYTES:
        raise Garbled
    return rest


def _path_in(line: bytes) -> bytes:
    try:
        return _value(_path_decoder.decode(line).data.path).removeprefix(b"./")
    except _MALFORMED as error:
        raise Garbled from error


def _line_in(line: bytes) -> Line:
    try:
        message = _line_decoder.decode(line)
        text = _value(message.data.lines)
    except _MALFORMED as error:
        raise Garbled from error
    submatches = message.data.submatches
    return Line(
        message.data.line_number,
        text.removesuffix(b"\n").removesuffix(b"\r"),
        message.type == "match",
        submatches[0].start if submatches else 0,
    )


def _value(value: _Bytes) -> bytes:
    return value.text.encode() if value.raw is None else value.raw
