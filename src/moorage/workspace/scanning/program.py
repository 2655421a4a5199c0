"""Our own search engine as a program: it searches as asked and prints what ripgrep would print.

It runs in a process of its own, so whoever started it can end it at any moment. ``search.own`` says
how it is started.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import msgspec

from moorage.workspace.opening.beneath import open_beneath
from moorage.workspace.scanning.pattern import parse
from moorage.workspace.scanning.scan import LineFinder, Scanner
from moorage.workspace.scanning.walker import FILE_FLAGS, Walker
from moorage.workspace.search.globs import byte_text, compile_glob
from moorage.workspace.search.hits import Line
from moorage.workspace.search.selection import PatternError

# The deepest pattern that is taken needs a few thousand frames, and a heap of a few MiB.
_MOST_FRAMES = 20_000
# The longest line that is held takes 32 MiB, several times over while it is looked at.
_MOST_MEMORY_BYTES = 1024 * 1024 * 1024
_BUFFER_BYTES = 64 * 1024
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# ripgrep's exit code when something could not be read, or the pattern is bad.
_HAD_ERRORS = 2
_TOO_LARGE = 3
_INPUT = b"<stdin>"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, besides the pattern and the paths."""

    action: str
    is_file: bool
    absolute: str
    excluded: Sequence[str]
    name_glob: str
    ignore_case: bool
    before: int
    after: int
    most: int | None


def main() -> None:
    """Search in the current folder or the standard input, as the arguments say."""
    sys.setrecursionlimit(_MOST_FRAMES)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    request = Request(**json.loads(sys.argv[1]))
    with open(1, "wb", buffering=_BUFFER_BYTES, closefd=False) as output:
        code, complaint = run(request, sys.argv[2], sys.argv[3:], output)
    os.write(2, complaint.encode("utf-8", "replace"))
    os._exit(code)  # nothing is left to be tidied up


def run(request: Request, pattern: str, paths: Sequence[str], output: BinaryIO) -> tuple[int, str]:
    """Do what is asked; return the exit code and what there is to complain about."""
    try:
        place = 0 if request.is_file else os.open(".", _FOLDER_FLAGS)
        searching = _Searching(request, place, output)
        if request.action == "files":
            searching.list_files()
        else:
            searching.search(pattern, [os.fsencode(path) for path in paths])
    except PatternError as error:
        return _HAD_ERRORS, str(error)
    except (MemoryError, RecursionError, OverflowError):
        return _TOO_LARGE, "the pattern, or a line, needs too much memory"
    except OSError as error:
        return _HAD_ERRORS, "" if isinstance(error, PermissionError) else str(error)
    return (_HAD_ERRORS if searching.has_unreadable else 0), ""


class _Searching:
    """One search: the files it looks at, and what it prints of each."""

    def __init__(self, request: Request, place: int, output: BinaryIO) -> None:
        self._request = request
        self._place = place
        self._output = output
        self.has_unreadable = False

    def list_files(self) -> None:
        for path in self._walk():
            self._output.write(b"./%b\0" % os.fsencode(path))

    def search(self, pattern: str, paths: Sequence[bytes]) -> None:
        request = self._request
        finder = LineFinder(parse(pattern, ignore_case=request.ignore_case))
        scanner = Scanner(finder, before=request.before, after=request.after)
        look = self._count if request.action == "count" else self._print_lines
        if request.is_file:
            look(scanner, 0, _INPUT)
            return
        for path in map(os.fsdecode, paths) if paths else self._walk():
            self._look_into(path, scanner, look)

    def _look_into(
        self, path: str, scanner: Scanner, look: Callable[[Scanner, int, bytes], None]
    ) -> None:
        try:
            fd = open_beneath(self._place, path, FILE_FLAGS)
        except OSError:
            self.has_unreadable = True
            return
        try:
            look(scanner, fd, b"./" + os.fsencode(path))
        except OSError:
            self.has_unreadable = True
        finally:
            os.close(fd)

    def _walk(self) -> Iterator[str]:
        """Yield the files of the folder that are to be looked at."""
        request = self._request
        accepts = compile_glob(request.name_glob).match if request.name_glob else None
        walker = Walker(excluded=frozenset(request.excluded))
        for path in walker.files(self._place, above=request.absolute):
            if accepts is None or accepts(byte_text(path[path.rfind("/") + 1 :])):
                yield path
        self.has_unreadable = self.has_unreadable or walker.unreadable > 0

    def _count(self, scanner: Scanner, fd: int, name: bytes) -> None:
        count = scanner.count(fd, is_named=self._request.is_file)
        if count:
            self._output.write(b"%b\0%d\n" % (name, count))

    def _print_lines(self, scanner: Scanner, fd: int, name: bytes) -> None:
        sheet = _PrintedSheet(name, self._request.most, self._output)
        scanner.read(fd, sheet, is_named=self._request.is_file)
        sheet.finish()


class _PrintedSheet:
    """Prints the lines of one file as ripgrep's messages in JSON; nothing of one without any."""

    def __init__(self, name: bytes, most: int | None, output: BinaryIO) -> None:
        self._path = _value(name)
        self._output = output
        self._is_begun = False
        self.wanted = float("inf") if most is None else most
        self.matches = 0
        self.is_binary = False

    def add(self, line: Line) -> None:
        self.matches += line.is_match
        if self.matches > self.wanted:
            return
        if not self._is_begun:
            self._is_begun = True
            self._output.write(b'{"type":"begin","data":{"path":%b}}\n' % self._path)
        kind, matches = b"context", b""
        if line.is_match:
            kind, matches = b"match", b'{"start":%d}' % line.match_at
        self._output.write(
            b'{"type":"%b","data":{"path":%b,"lines":%b,"line_number":%d,"submatches":[%b]}}\n'
            % (kind, self._path, _value(line.text + b"\n"), line.number, matches)
        )

    def finish(self) -> None:
        if self._is_begun:
            offset = b"0" if self.is_binary else b"null"
            message = b'{"type":"end","data":{"path":%b,"binary_offset":%b}}\n'
            self._output.write(message % (self._path, offset))


def _value(data: bytes) -> bytes:
    """Return bytes in JSON: as text, or in base64 when they are no UTF-8."""
    try:
        return b'{"text":%b}' % msgspec.json.encode(data.decode())
    except UnicodeDecodeError:
        return b'{"bytes":"%b"}' % b64encode(data)
