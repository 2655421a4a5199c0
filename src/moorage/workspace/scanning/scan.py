"""Our own search engine: reads files block by block and finds the lines that match.

It gives what ripgrep gives for the patterns that both know. Files with a NUL byte are binary and
give nothing, UTF-16 with a byte order mark is read as text.
"""

from __future__ import annotations

import codecs
import os
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from moorage.workspace.scanning.automaton import Automaton
from moorage.workspace.scanning.expression import (
    LONGEST_LINE,
    compile_python,
    longest_safe_line,
    required_text,
    widened,
)
from moorage.workspace.scanning.pattern import Node
from moorage.workspace.search.hits import Line

# One block is searched without a pause, so it must take milliseconds.
_BLOCK_BYTES = 1024 * 1024
# A line that is longer than any block: the rest of its file is left out.
_MAX_CARRIED_BYTES = 32 * 1024 * 1024


class Place(NamedTuple):
    """A matching line in a block: where it begins and ends, and where the match in it begins."""

    begin: int
    end: int
    match_at: int


class Paper(Protocol):
    """Takes the lines of one file in their order, those of ``wanted`` matches at least."""

    matches: int
    is_binary: bool

    @property
    def wanted(self) -> float:
        """Return up to which match the file has to be read."""

    def add(self, line: Line) -> None:
        """Take the next line, a match or one around a match."""


class LineFinder:
    """A pattern as something that finds lines in blocks of text."""

    def __init__(self, node: Node) -> None:
        """Prepare both ways of looking.

        Raises:
            PatternError: counted repetitions make the pattern too large.
        """
        self._needed = required_text(node)
        self._exact = _Expression(node)
        self._automaton: Automaton | None = None
        if self._exact.safe_length < LONGEST_LINE:
            self._automaton = Automaton(node)
            self._wide = _Expression(widened(node))

    def places(self, text: str) -> Iterator[Place]:
        """Yield the matching lines of ``text``, which consists of whole lines."""
        if self._needed not in text:
            return iter(())
        if self._automaton is None:
            return self._exact.search(text)
        longest = max(map(len, text.split("\n")))
        if longest <= self._exact.safe_length:
            return self._exact.search(text)
        if longest <= self._wide.safe_length:
            return self._sift(text, self._automaton)
        return self._read(text, self._automaton)

    def _sift(self, text: str, automaton: Automaton) -> Iterator[Place]:
        """Look at those lines only that a wider pattern finds."""
        for place in self._wide.search(text):
            if automaton.find(text[place.begin : place.end]) >= 0:
                yield place

    def _read(self, text: str, automaton: Automaton) -> Iterator[Place]:
        begin, size = 0, len(text)
        while begin < size:
            end = text.find("\n", begin)
            end = size if end < 0 else end
            line = text[begin:end]
            if self._may_match(line):
                match_at = automaton.find(line)
                if match_at >= 0:
                    yield Place(begin, end, match_at)
            begin = end + 1

    def _may_match(self, line: str) -> bool:
        if self._needed not in line:
            return False
        return len(line) > self._wide.safe_length or self._wide.finds(line)


class _Expression:
    """A pattern for Python's engine, with the length of line up to which it is safe."""

    def __init__(self, node: Node) -> None:
        self.safe_length = longest_safe_line(node)
        self._in_ascii = compile_python(node, is_ascii=True)
        self._in_text = compile_python(node)

    def finds(self, line: str) -> bool:
        """Return whether one line matches."""
        return self._in_text.search(line) is not None

    def search(self, text: str) -> Iterator[Place]:
        """Yield the lines that it finds."""
        search = (self._in_ascii if text.isascii() else self._in_text).search
        size, at = len(text), 0
        while at < size and (found := search(text, at)) is not None:
            if found.start() == size and text.endswith("\n"):
                return  # an empty match behind the last line
            begin = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            end = size if end < 0 else end
            yield Place(begin, end, found.start() - begin)
            at = end + 1


class Scanner:
    """One search, asked about one open file after the other."""

    def __init__(self, finder: LineFinder, *, before: int = 0, after: int = 0) -> None:
        """Keep the pattern and how many lines around a match are wanted."""
        self._finder = finder
        self._before = before
        self._after = after

    def count(self, fd: int, *, is_named: bool = False) -> int:
        """Return how many lines match; none do in a binary file, unless it was named itself."""
        count = 0
        for text in _blocks(fd):
            if "\0" in text:
                if not is_named:
                    return 0
                text = _as_lines(text)  # noqa: PLW2901 - the block is read in another way
            count += sum(1 for _ in self._finder.places(text))
        return count

    def read(self, fd: int, sheet: Paper, *, is_named: bool = False) -> None:
        """Put the matching lines and those around them on a sheet; their ends stay in part."""
        reader = _Reader(sheet, self._before, self._after)
        for text in _blocks(fd):
            if "\0" in text:
                sheet.is_binary = True
                if not is_named:
                    return
                text = _as_lines(text)  # noqa: PLW2901 - the block is read in another way
            reader.take(text, self._finder.places(text))
            if sheet.matches > sheet.wanted:
                return


def _as_lines(text: str) -> str:
    """Return binary text as ripgrep reads it: a NUL ends a line."""
    return text.replace("\0", "\n")


class _Reader:
    """Goes through the blocks of one file and counts its lines."""

    def __init__(self, sheet: Paper, before: int, after: int) -> None:
        self._sheet = sheet
        self._recent: deque[tuple[int, str]] = deque(maxlen=before)
        self._after = after
        self._pending = 0
        self._next_number = 1

    def take(self, text: str, places: Iterator[Place]) -> None:
        """Take a block: its matches, and the lines around them."""
        at = 0
        for place in places:
            self._pass(text, at, place.begin)
            self._put(text[place.begin : place.end], place.match_at)
            at = place.end + 1
        self._pass(text, at, len(text))

    def _put(self, line: str, match_at: int) -> None:
        for number, text in self._recent:
            self._sheet.add(Line(number, _encode(text), is_match=False))
        self._recent.clear()
        at = match_at if line.isascii() else len(_encode(line[:match_at]))
        self._sheet.add(Line(self._next_number, _encode(line), is_match=True, match_at=at))
        self._pending = self._after
        self._next_number += 1

    def _pass(self, text: str, begin: int, end: int) -> None:
        """Go over lines without a match; some of them may be wanted around one."""
        if begin >= end:
            return
        first = self._next_number
        self._next_number += text.count("\n", begin, end) + (not text.endswith("\n", begin, end))
        while self._pending and begin < end:
            stop = text.find("\n", begin, end)
            stop = end if stop < 0 else stop
            self._sheet.add(Line(first, _encode(text[begin:stop]), is_match=False))
            self._pending -= 1
            first, begin = first + 1, stop + 1
        if self._recent.maxlen:
            lines = _last_lines(text, begin, end, self._recent.maxlen)
            numbers = range(self._next_number - len(lines), self._next_number)
            self._recent.extend(zip(numbers, lines, strict=True))


def _last_lines(text: str, begin: int, end: int, wanted: int) -> list[str]:
    """Return the last lines of a part of a text, at most ``wanted``."""
    if begin >= end:
        return []
    end -= text.endswith("\n", begin, end)
    lines: list[str] = []
    while len(lines) < wanted and end >= begin:
        start = text.rfind("\n", begin, end) + 1
        start = start or begin
        lines.append(text[start:end])
        end = start - 1
    lines.reverse()
    return lines


def _encode(line: str) -> bytes:
    return line.encode("utf-8", "surrogateescape")


def _blocks(fd: int) -> Iterator[str]:
    """Yield a file as blocks of whole lines."""
    carried = b""
    decoder: codecs.IncrementalDecoder | None = None
    is_first = True
    while data := os.read(fd, _BLOCK_BYTES):
        if is_first:
            is_first = False
            decoder = _sixteen_bit_decoder(data)
            data = data.removeprefix(codecs.BOM_UTF8)
        if decoder is not None:
            data = decoder.decode(data).removeprefix("\ufeff").encode()
        end = data.rfind(b"\n") + 1
        if not end:
            carried += data
            if len(carried) > _MAX_CARRIED_BYTES:
                return
            continue
        yield (carried + data[:end]).decode("utf-8", "surrogateescape")
        carried = data[end:]
    if carried:
        yield carried.decode("utf-8", "surrogateescape")


def _sixteen_bit_decoder(start: bytes) -> codecs.IncrementalDecoder | None:
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if start.startswith(mark):
            return codecs.getincrementaldecoder(name)("replace")
    return None
