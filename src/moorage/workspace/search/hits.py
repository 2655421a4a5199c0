"""What a search found: every file is counted, and only the lines of one page are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

import msgspec

# What one remembered file takes besides its path.
_FILE_BYTES = 120
_MODULUS = 1 << 96


class SearchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a search and its answer."""

    page_records: int = 250
    page_paths: int = 500
    # The text of all records of one answer, and of one line.
    max_content_bytes: int = 20 * 1024
    max_match_bytes: int = 4 * 1024
    # A longer line becomes a note: it is generated, and nobody reads it.
    max_line_bytes: int = 1024 * 1024
    max_context_lines: int = 1000
    # What is remembered of the files before and on a page; a page that needs more is refused.
    max_kept_bytes: int = 32 * 1024 * 1024
    # A search of 50,000 files takes a second; this ends one over a network disk, one for a pattern
    # that takes for ever, and a program that never ends.
    timeout_seconds: float = 60.0
    # A pattern is an argument of a program, of which the system takes 128 KiB.
    max_pattern_bytes: int = 32 * 1024
    # A file that changes between counting and reading makes a page wrong; it is then made anew.
    attempts: int = 3


class TooDeep(Exception):
    """The page lies so deep in the answer that the files before it do not fit in memory."""


class Line(NamedTuple):
    """One line of a file; ``match_at`` is the byte of ``text`` where the first match begins.

    ``omitted_bytes`` of the line are not in ``text``; with ``is_too_long`` none of it is.
    """

    number: int
    text: bytes
    is_match: bool
    match_at: int = 0
    omitted_bytes: int = 0
    is_too_long: bool = False


class Record(msgspec.Struct, frozen=True):
    """One matching line, or one file when only files are asked for (then ``line`` is None).

    A line between two matches belongs to the first of them only. ``matches`` counts those of the
    whole file.
    """

    path: bytes
    matches: int
    line: Line | None = None
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()


class Slice(NamedTuple):
    """The part of one file's records that lies on a page: after ``skip``, ``take`` of them."""

    path: bytes
    matches: int
    skip: int
    take: int


class Sheet:
    """Takes the lines of one file in their order and keeps those of its part of the page."""

    def __init__(self, part: Slice, limits: SearchLimits) -> None:
        """Keep what is wanted, and the bounds of what is kept."""
        self.part = part
        self._limits = limits
        self._lines: list[Line] = []
        self._room = limits.max_content_bytes
        self._near = 0
        self.matches = 0
        self.is_binary = False

    @property
    def wanted(self) -> int:
        """Return up to which match the file has to be read."""
        return self.part.skip + self.part.take

    def add(self, line: Line) -> None:
        """Take the next line, a match or one around a match."""
        self.matches += line.is_match
        self._near = 0 if line.is_match else self._near + 1
        if self._near > 2 * self._limits.max_context_lines:
            return  # nobody asked for so many lines between two matches
        if line.is_match and self.matches <= self.part.skip:
            # The last match before the page stays, so that the lines after it are known as its.
            self._lines = []
        elif self.matches > self.wanted or self._room < 0:
            return
        if len(line.text) > self._limits.max_line_bytes:
            line = line._replace(text=b"", is_too_long=True)
        line = shortened(line, self._limits.max_match_bytes)
        if self.matches > self.part.skip:
            self._room -= len(line.text)
        self._lines.append(line)

    def records(self, *, before: int, after: int) -> list[Record]:
        """Return the records of the page."""
        found = _records(self.part, self._lines, before=before, after=after)
        return list(found)[bool(self.part.skip) :][: self.part.take]


def _records(part: Slice, lines: Sequence[Line], *, before: int, after: int) -> Iterator[Record]:
    match: Line | None = None
    leading: list[Line] = []
    waiting: list[Line] = []
    trailing: list[Line] = []
    for line in lines:
        if not line.is_match:
            is_trailing = match is not None and line.number <= match.number + after
            (trailing if is_trailing else waiting).append(line)
            continue
        if match is not None:
            yield Record(part.path, part.matches, match, tuple(leading), tuple(trailing))
        leading = [other for other in waiting if other.number >= line.number - before]
        match, waiting, trailing = line, [], []
    if match is not None:
        yield Record(part.path, part.matches, match, tuple(leading), tuple(trailing))


def shortened(line: Line, max_bytes: int) -> Line:
    """Return the line with at most ``max_bytes`` of its text, those around the first match."""
    excess = len(line.text) - max_bytes
    if excess <= 0:
        return line
    # A quarter before the match, so that the match itself and what follows it are seen.
    begin = max(0, min(line.match_at - max_bytes // 4, excess))
    end = begin + max_bytes
    while 0 < begin < end and _is_inside_character(line.text, begin):
        begin += 1
    while end > begin and _is_inside_character(line.text, end):
        end -= 1
    return line._replace(
        text=line.text[begin:end],
        match_at=line.match_at - begin,
        omitted_bytes=line.omitted_bytes + len(line.text) - (end - begin),
    )


def _is_inside_character(text: bytes, at: int) -> bool:
    """Return whether the byte at ``at`` continues a character of UTF-8."""
    return at < len(text) and text[at] & 0xC0 == 0x80


def digest_of(*parts: bytes) -> int:
    """Return the digest of one item; where one part ends and the next begins counts."""
    digest = 0
    for part in parts:
        digest = digest << 32 ^ crc32(part, len(part))
    return digest


class SnapshotDigest:
    """What an answer was, in a token, so that a later page can tell whether it still is.

    It grows item by item; the order of the items does not matter, their number does. It notices
    change, it does not resist forgery.
    """

    __slots__ = ("_count", "_question", "_sum")

    def __init__(self, *question: str) -> None:
        """Begin with what was asked, so that another question's token never fits."""
        self._question = "\0".join(question).encode("utf-8", "surrogateescape")
        self._sum = 0
        self._count = 0

    def add(self, item: int) -> None:
        """Take the digest of one more item."""
        self._sum = (self._sum + item) % _MODULUS
        self._count += 1

    def token(self) -> str:
        """Return the token of what was taken so far."""
        answer = b"%d.%d." % (self._count, self._sum)
        return blake2b(answer + self._question, digest_size=12).hexdigest()


def file_state(status: os.stat_result) -> bytes:
    """Return what differs when a file has changed."""
    return b"%d.%d" % (status.st_mtime_ns, status.st_size)


class Collector:
    """Takes files in any order; totals are exact, and only what a page may need is remembered."""

    def __init__(
        self,
        *,
        need: int,
        max_kept_bytes: int,
        question: Sequence[str],
        accepts: Callable[[bytes], bool] | None = None,
        counts_files: bool = False,
    ) -> None:
        """Keep the bounds: ``need`` is the number of records up to the end of the page.

        ``accepts`` says whether a path counts at all. With ``counts_files`` a record is a file,
        else a matching line.
        """
        self._need = need
        self._max_kept_bytes = max_kept_bytes
        self._accepts = accepts
        self._counts_files = counts_files
        self._digest = SnapshotDigest(*question)
        self._files: list[tuple[bytes, int]] = []
        self._kept_bytes = 0
        self._last: bytes | None = None
        self.total_files = 0
        self.total_matches = 0

    @property
    def total_records(self) -> int:
        """Return how many records the whole answer has."""
        return self.total_files if self._counts_files else self.total_matches

    def token(self) -> str:
        """Return the snapshot token of the whole answer."""
        return self._digest.token()

    def accepts(self, path: bytes) -> bool:
        """Return whether the path counts at all."""
        return self._accepts is None or self._accepts(path)

    def add(self, path: bytes, matches: int, state: bytes = b"") -> None:
        """Take one file that ``accepts`` said yes to; ``state`` differs when the file has changed.

        Raises:
            TooDeep: what the page needs does not fit.
        """
        self.total_files += 1
        self.total_matches += matches
        self._digest.add(digest_of(path, b"%d.%b" % (matches, state)))
        if self._last is not None and path > self._last:
            return
        self._files.append((path, matches))
        self._kept_bytes += len(path) + _FILE_BYTES
        # Half of the bound is for what came since the last pruning.
        if len(self._files) > 2 * self._need + 64 or self._kept_bytes > self._max_kept_bytes // 2:
            self._prune()
            if self._kept_bytes > self._max_kept_bytes // 2:
                raise TooDeep

    def page(self, offset: int, length: int) -> list[Slice]:
        """Return the parts that hold the records from ``offset``, in the order of their paths."""
        self._files.sort()
        slices: list[Slice] = []
        begin = 0
        for path, matches in self._files:
            weight = 1 if self._counts_files else matches
            skip = max(0, offset - begin)
            take = min(weight, offset + length - begin) - skip
            begin += weight
            if take > 0:
                slices.append(Slice(path, matches, skip, take))
            if begin >= offset + length:
                break
        return slices

    def _prune(self) -> None:
        """Forget the files that come after the last record that the page can need."""
        self._files.sort()
        records = kept_bytes = 0
        for index, (path, matches) in enumerate(self._files):
            records += 1 if self._counts_files else matches
            kept_bytes += len(path) + _FILE_BYTES
            if records >= self._need:
                del self._files[index + 1 :]
                self._last = path
                break
        self._kept_bytes = kept_bytes
