"""Glob patterns as regular expressions, in the dialect that ripgrep and ignore files share.

A pattern is matched against a relative path with ``/`` between its parts. ``*`` and ``?`` stop at
``/``; ``**`` as a whole part crosses folders; ``{a,b}`` chooses; a backslash takes the next
character as it is. As in Git and ripgrep, ``?`` is one byte: names are bytes, written here as the
characters of the same numbers (``byte_text``).

Nothing can interrupt Python's engine, so an expression must not make it try one way after another.
Choices are therefore spelled out, and what follows a wildcard is taken where it first fits, for
good: nothing that comes later could fit only further on.
"""

from __future__ import annotations

import os
import re
from typing import TypeAlias

from moorage.workspace.memory import remembered

# A token is the source of one character, or one of these wildcards.
_STAR = "*"
_FOLDERS = "**/"
_ANYTHING = "**"
_SLASH = "/"
Token: TypeAlias = str
Row: TypeAlias = "list[Token | list[Row]]"

_LONGEST_GLOB = 4096
"""Longer ones match no path that the system takes."""

_LONGEST_KEPT = 256
_LONGEST_SOURCE = 16 * 1024

_DEEPEST_CHOICE = 16
_MOST_CHOICES = 256
_MOST_TOKENS = 16 * 1024
"""So many choices, and so much text of all of them together, are more than anybody writes."""

_MOST_ANYWHERE = 8
"""Choices with ``**`` in their midst, where only choices put it, are tried at every place."""

_WILD = re.compile(r"[*?\[\]{}\\]")


class GlobError(ValueError):
    """The text is no glob; the message says why."""


def has_wildcard(text: str) -> bool:
    """Return whether ``text`` is more than a plain name or path."""
    return _WILD.search(text) is not None


def byte_text(path: str) -> str:
    """Return the bytes of a name as characters of the same numbers."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


@remembered(count=256, longest=_LONGEST_KEPT)
def compile_glob(glob: str) -> re.Pattern[str]:
    """Return the expression that the ``byte_text`` of a relative path must match as a whole.

    Raises:
        GlobError: a class or a choice is not closed, a range runs backwards, an escape is last, or
            it is longer than any path, or has more choices than are looked at.
    """
    if len(glob) > _LONGEST_GLOB:
        raise GlobError(f"it is longer than {_LONGEST_GLOB} characters")
    plain_rows = _spelled_out(_Parser(byte_text(glob)).parse())
    rows = [row for plain in plain_rows for row in _at_borders(plain)]
    _check_count(len(rows), tokens=sum(map(len, rows)))
    if sum(_ANYTHING in row[:-1] for row in rows) > _MOST_ANYWHERE:
        raise GlobError("it has ** in the midst of too many choices")
    sources = dict.fromkeys(map(_source, rows))
    source = f"(?:{'|'.join(sources)})\\Z"
    expression = re.compile(source, re.DOTALL)
    if len(source) > _LONGEST_SOURCE:
        re.purge()  # the library keeps hundreds of expressions, however large
    return expression


class _Parser:
    """One pass over a glob; the last of ``rows`` holds what was read so far of the inmost choice.

    A row is a sequence of tokens and of choices, which are lists of rows.
    """

    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        self._rows: list[Row] = [[]]
        self._choices: list[list[Row]] = []

    def parse(self) -> Row:
        while self._at < len(self._glob):
            self._step()
        if self._choices:
            raise GlobError("a { is not closed")
        return self._rows[-1]

    def _step(self) -> None:
        char = self._glob[self._at]
        self._at += 1
        match char:
            case "*":
                self._star()
            case "?":
                self._add("[^/]")
            case "[":
                self._class()
            case "\\":
                self._add(re.escape(self._take("a backslash ends the pattern")))
            case "{" | "}" | ",":
                self._choice(char)
            case _:
                self._add(re.escape(char))

    def _add(self, token: Token) -> None:
        self._rows[-1].append(token)

    def _take(self, complaint: str) -> str:
        if self._at == len(self._glob):
            raise GlobError(complaint)
        self._at += 1
        return self._glob[self._at - 1]

    def _peek(self) -> str:
        return self._glob[self._at : self._at + 1]

    def _choice(self, char: str) -> None:
        if char == "{":
            if len(self._choices) == _DEEPEST_CHOICE:
                raise GlobError(f"more than {_DEEPEST_CHOICE} {{ stand inside each other")
            self._choices.append([])
            self._rows.append([])
        elif char == "," and self._choices:
            self._choices[-1].append(self._rows.pop())
            self._rows.append([])
        elif char == ",":
            self._add(",")
        elif not self._choices:
            raise GlobError("a } closes nothing")
        else:
            self._choices[-1].append(self._rows.pop())
            self._rows[-1].append(self._choices.pop())

    def _star(self) -> None:
        if self._peek() != "*":
            self._add(_STAR)
            return
        before = self._glob[: self._at - 1]
        self._at += 1
        following = self._peek()
        starts = before == "" or (bool(self._choices) and before[-1] in "{,")
        ends = following == "" or (bool(self._choices) and following in ",}")
        if not (starts or before[-1] == "/") or not (ends or following == "/"):
            self._add(_STAR)  # not a whole part: no more than a star
        elif starts:
            self._at += following == "/"
            self._add(_ANYTHING if ends else _FOLDERS)
        else:
            self._at += not ends
            # After **/ there is nothing more to cross.
            if ends:
                self._add(_ANYTHING)
            elif self._rows[-1][-1] != _FOLDERS:
                self._add(_FOLDERS)

    def _class(self) -> None:
        is_negated = self._peek() in ("!", "^")
        self._at += is_negated
        members: list[str] = []
        has_slash = False
        while True:
            char = self._take("a [ is not closed")
            if char == "]" and members:
                break
            first, last = self._range(char)
            has_slash = has_slash or first <= _SLASH <= last
            members.append(re.escape(first) if first == last else _range_source(first, last))
        source = f"[{'^' if is_negated else ''}{''.join(members)}]"
        if has_slash == is_negated:
            self._add(source)
        else:
            # A star must not have to guess whether this is the end of its part.
            self._rows[-1].append([[f"(?!/){source}"], [_SLASH]])

    def _range(self, first: str) -> tuple[str, str]:
        following = self._glob[self._at : self._at + 2]
        if len(following) < 2 or following[0] != "-" or following[1] == "]":
            return first, first
        self._at += 2
        if following[1] < first:
            raise GlobError(f"the range {first}-{following[1]} runs backwards")
        return first, following[1]


def _range_source(first: str, last: str) -> str:
    return f"{re.escape(first)}-{re.escape(last)}"


def _spelled_out(row: Row) -> list[list[Token]]:
    """Return every sequence of tokens that the choices of a row leave.

    Raises:
        GlobError: they are too many.
    """
    found: list[list[Token]] = [[]]
    for part in row:
        if isinstance(part, str):
            for start in found:
                start.append(part)
        else:
            options = [option for inner in part for option in _spelled_out(inner)]
            _check_count(len(found) * len(options))
            found = [[*start, *option] for start in found for option in options]
    _check_count(len(found), tokens=sum(map(len, found)))
    return found


def _at_borders(tokens: list[Token]) -> list[list[Token]]:
    """Return the sequences that mean the same, with ``**/`` only where a part of a path begins.

    Only a choice puts it elsewhere. There it is nothing, or anything up to the end of a folder.
    """
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token == _FOLDERS and not all(map(_is_at_border, found)):
            found = [
                [*start, *rest]
                for start in found
                for rest in ([[token]] if _is_at_border(start) else [[], [_ANYTHING, _SLASH]])
            ]
            _check_count(len(found))
        else:
            for start in found:
                start.append(token)
    return found


def _is_at_border(tokens: list[Token]) -> bool:
    return not tokens or tokens[-1] in (_SLASH, _FOLDERS)


def _check_count(choices: int, *, tokens: int = 0) -> None:
    if choices > _MOST_CHOICES or tokens > _MOST_TOKENS:
        raise GlobError(f"it has more than {_MOST_CHOICES} choices, or too long ones")


def _source(tokens: list[Token]) -> str:
    """Return the expression of one sequence of tokens."""
    runs: list[tuple[Token, list[Token]]] = [("", [])]
    for token in tokens:
        if token in (_FOLDERS, _ANYTHING):
            runs.append((token, []))
        else:
            runs[-1][1].append(token)
    parts: list[str] = []
    for number, (opening, run) in enumerate(runs, start=1):
        is_last = number == len(runs)
        source = _run_source(run, is_last=is_last)
        match opening:
            case "":
                parts.append(source)
            case _ if is_last:
                parts.append((".*" if opening == _ANYTHING else "(?:.*/)?") + source)
            case _:
                skipped = ".*?" if opening == _ANYTHING else "(?:[^/]*+/)*?"
                parts.append(f"(?>{skipped}{source})")
    return "".join(parts)


def _run_source(run: list[Token], *, is_last: bool) -> str:
    """Return the expression of characters and stars."""
    chunks: list[list[Token]] = [[]]
    for token in run:
        if token == _STAR:
            chunks.append([])
        else:
            chunks[-1].append(token)
    parts = ["".join(chunks[0])]
    for number, chunk in enumerate(chunks[1:], start=2):
        text = "".join(chunk)
        if is_last and number == len(chunks):
            parts.append(f"[^/]*{text}")
        elif _SLASH in chunk:
            end = chunk.index(_SLASH) + 1
            parts.append(f"(?>[^/]*{''.join(chunk[:end])}){''.join(chunk[end:])}")
        else:
            parts.append(f"(?>[^/]*?{text})")
    return "".join(parts)
