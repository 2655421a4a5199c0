"""ripgrep's side of a search: its argument vectors, and what its output means.

Pure: starting it is ``engine``'s affair. The user's configuration is not read, hidden files are
searched, and what ``ignore`` says is never entered is left out here by the same names.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from moorage.workspace.search.hits import Line, Sheet
from moorage.workspace.search.ignore import SKIPPED_FOLDERS, SKIPPED_NAMES

_PLAIN_FLAGS = (
    "--no-config",
    "--hidden",
    "--no-ignore-global",
    "--no-messages",
    "--no-ignore-messages",
    "--no-follow",
    # With memory maps a byte order mark is read in another way, and a shrinking file is a crash.
    "--no-mmap",
    "--color=never",
)
# Punctuation that ripgrep 13 does not let a backslash precede, and later ones do.
_NEEDLESS = frozenset(string.punctuation) - frozenset("\\.+*?()|[]{}^$#&-~<>")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_COUNT = re.compile(rb"(?:([^\0]*)\0)?(\d+)\n")

_BEGIN = b'{"type":"begin"'
_MATCH = b'{"type":"match"'
_END = b'{"type":"end"'
_IS_TEXT = b'"binary_offset":null'
# With what follows it, so that no number is read in part.
_NUMBER = re.compile(rb'\},"line_number":(\d+)(?=,)')
_START = re.compile(rb'"start":(\d+)')
# A line in JSON with all its matches; of a longer one only the beginning is looked at.
_MAX_JSON_LINE = 4 * 1024 * 1024


class _Bytes(msgspec.Struct):
    """Text, or base64 of what is no UTF-8."""

    text: str = ""
    raw: bytes | None = msgspec.field(default=None, name="bytes")


class _Submatch(msgspec.Struct):
    start: int


class _LineData(msgspec.Struct):
    lines: _Bytes
    line_number: int
    submatches: list[_Submatch]


class _LineMessage(msgspec.Struct):
    type: str
    data: _LineData


class _PathData(msgspec.Struct):
    path: _Bytes


class _PathMessage(msgspec.Struct):
    data: _PathData


_decode_line = msgspec.json.Decoder(_LineMessage).decode
_decode_path = msgspec.json.Decoder(_PathMessage).decode


def count_argv(
    program: str, pattern: str, *, flags: Iterable[str] = (), selection: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the argument vector that counts matching lines per file.

    ``selection`` is what ``select`` returned, or None to search the standard input.
    """
    target = "-" if selection is None else "./"
    counting = ("--count", "--null", "--with-filename", *flags, *(selection or ()))
    return _argv(program, counting, pattern, (target,))


def lines_argv(
    program: str,
    pattern: str,
    targets: Sequence[str],
    *,
    flags: Iterable[str] = (),
    selection: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the argument vector that prints matching lines of files, folders or the input."""
    return _argv(program, ("--json", *flags, *selection), pattern, targets)


def files_argv(program: str, *, selection: Sequence[str]) -> tuple[str, ...]:
    """Return the argument vector that lists the files that a search would read."""
    return (program, *_PLAIN_FLAGS, "--files", "--null", *selection, "--", "./")


def select(*, excluded: Iterable[str] = (), name_glob: str = "") -> tuple[str, ...]:
    """Return the flags that say which files are searched.

    ``excluded`` are relative paths to leave out; ``name_glob`` is what base names must match.
    """
    globs = [f"!{name}" for name in SKIPPED_NAMES]
    globs += [f"!{name}/" for name in SKIPPED_FOLDERS]
    globs += [f"!/{_quote_glob(path)}" for path in excluded]
    # A type, not a glob: a glob would bring back what ignore files leave out.
    kind = (f"--type-add=wanted:{name_glob}", "--type=wanted") if name_glob else ()
    return (*(f"--glob={glob}" for glob in globs), *kind)


def _argv(
    program: str, flags: Iterable[str], pattern: str, targets: Iterable[str]
) -> tuple[str, ...]:
    pattern = without_needless_escapes(pattern)
    return (program, *_PLAIN_FLAGS, *flags, "-e", pattern, "--", *targets)


def _quote_glob(path: str) -> str:
    return re.sub(r"([*?\[\]{}\\,!])", r"\\\1", path)


def without_needless_escapes(pattern: str) -> str:
    r"""Return the pattern without backslashes that mean nothing, such as in ``\/`` or ``\"``.

    Later versions of ripgrep ignore them and version 13 refuses them.
    """
    return _ESCAPE.sub(lambda found: found[found[1] in _NEEDLESS], pattern)


def file_counts(output: bytes, *, with_binary: bool) -> list[tuple[bytes, int]]:
    """Return the matching lines per file in a whole output of ``lines_argv``."""
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
    """Reads the output of ``count_argv``: path, NUL, count."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._rest = b""

    def feed(self, chunk: bytes) -> list[tuple[bytes, int]]:
        """Take the next bytes of output and return the files that are complete."""
        buffer = self._rest + chunk
        end = 0
        counts: list[tuple[bytes, int]] = []
        for found in _COUNT.finditer(buffer):
            end = found.end()
            counts.append(((found[1] or b"").removeprefix(b"./"), int(found[2])))
        self._rest = buffer[end:]
        return counts


class PathStream:
    """Reads the output of ``files_argv``."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes of output and return the paths that are complete."""
        *paths, self._rest = (self._rest + chunk).split(b"\0")
        return [path.removeprefix(b"./") for path in paths]


class JsonStream:
    """Reads the output of ``lines_argv``."""

    def __init__(self, sheets: Mapping[bytes, Sheet]) -> None:
        """Keep where the lines of each file go."""
        self._sheets = sheets
        self._sheet: Sheet | None = None
        self._rest = b""
        self._long: _LongLine | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of output."""
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
            self._sheet.add(_line(_decode_line(line)))


class _LongLine:
    """A line that goes by: its text if that is whole at the beginning, else only its number."""

    def __init__(self, start: bytes) -> None:
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
        whole = b'%b,"submatches":%b}}' % (start[: found.end()], matches)
        self.line = _line(_decode_line(whole))

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


def _path_in(line: bytes) -> bytes:
    return _value(_decode_path(line).data.path).removeprefix(b"./")


def _line(message: _LineMessage) -> Line:
    data = message.data
    return Line(
        data.line_number,
        _value(data.lines).removesuffix(b"\n").removesuffix(b"\r"),
        message.type == "match",
        data.submatches[0].start if data.submatches else 0,
    )


def _value(value: _Bytes) -> bytes:
    return value.text.encode() if value.raw is None else value.raw
