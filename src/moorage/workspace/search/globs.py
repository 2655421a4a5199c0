"""Glob patterns as regular expressions, in the dialect that ripgrep and ignore files share.

A pattern is matched against a relative path with ``/`` between its parts. ``*`` and ``?`` stop at
``/``; ``**`` as a whole part crosses folders; ``{a,b}`` chooses; a backslash takes the next
character as it is. As in Git and ripgrep, ``?`` is one byte: names are bytes, written here as the
characters of the same numbers (``byte_text``).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

_PREFIX = "(?:.*/)?"
_MIDDLE = "/(?:.*/)?"
_SUFFIX = "/.*"
_STAR = "[^/]*"
_WILD = re.compile(r"[*?\[\]{}\\]")


class GlobError(ValueError):
    """The text is no glob; the message says why."""


def has_wildcard(text: str) -> bool:
    """Return whether ``text`` is more than a plain name or path."""
    return _WILD.search(text) is not None


def byte_text(path: str) -> str:
    """Return the bytes of a name as characters of the same numbers."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


@lru_cache(maxsize=512)
def compile_glob(glob: str) -> re.Pattern[str]:
    """Return the expression that the ``byte_text`` of a relative path must match as a whole.

    Raises:
        GlobError: a class or a choice is not closed, a range runs backwards, or an escape is last.
    """
    return re.compile(_Translator(byte_text(glob)).translate() + r"\Z", re.DOTALL)


class _Translator:
    """One pass over a glob; ``parts`` holds what was read so far."""

    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        self._parts: list[str] = []
        self._depth = 0

    def translate(self) -> str:
        while self._at < len(self._glob):
            self._step()
        if self._depth:
            raise GlobError("a { is not closed")
        return "".join(self._parts)

    def _step(self) -> None:
        char = self._glob[self._at]
        self._at += 1
        match char:
            case "*":
                self._star()
            case "?":
                self._parts.append("[^/]")
            case "[":
                self._parts.append(self._class())
            case "\\":
                self._parts.append(re.escape(self._take("a backslash ends the pattern")))
            case "{" | "}" | ",":
                self._choice(char)
            case _:
                self._parts.append(re.escape(char))

    def _take(self, complaint: str) -> str:
        if self._at == len(self._glob):
            raise GlobError(complaint)
        self._at += 1
        return self._glob[self._at - 1]

    def _peek(self) -> str:
        return self._glob[self._at : self._at + 1]

    def _choice(self, char: str) -> None:
        if char == "{":
            self._depth += 1
            self._parts.append("(?:")
        elif char == "," and self._depth:
            self._parts.append("|")
        elif char == ",":
            self._parts.append(",")
        elif not self._depth:
            raise GlobError("a } closes nothing")
        else:
            self._depth -= 1
            self._parts.append(")")

    def _star(self) -> None:
        if self._peek() != "*":
            self._parts.append(_STAR)
            return
        before = self._glob[: self._at - 1]
        self._at += 1
        following = self._peek()
        starts = before == "" or (self._depth > 0 and before[-1] in "{,")
        ends = following == "" or (self._depth > 0 and following in ",}")
        if not (starts or before[-1] == "/") or not (ends or following == "/"):
            self._parts.append(_STAR)  # not a whole part: no more than a star
        elif starts:
            self._at += following == "/"
            self._parts.append(".*" if ends else _PREFIX)
        else:
            self._crossing(is_last=ends)

    def _crossing(self, *, is_last: bool) -> None:
        """Take ``/**`` or ``/**/``; the slash before it is the last part read, or was crossed."""
        self._at += not is_last
        if self._parts[-1] != "/":  # after **/: that already crosses folders
            if is_last:
                self._parts.append(".*")
            return
        self._parts[-1] = _SUFFIX if is_last else _MIDDLE

    def _class(self) -> str:
        is_negated = self._peek() in ("!", "^")
        self._at += is_negated
        members: list[str] = []
        while True:
            char = self._take("a [ is not closed")
            if char == "]" and members:
                break
            members.append(self._range(char))
        return f"[{'^' if is_negated else ''}{''.join(members)}]"

    def _range(self, first: str) -> str:
        following = self._glob[self._at : self._at + 2]
        if len(following) < 2 or following[0] != "-" or following[1] == "]":
            return re.escape(first)
        self._at += 2
        if following[1] < first:
            raise GlobError(f"the range {first}-{following[1]} runs backwards")
        return f"{re.escape(first)}-{re.escape(following[1])}"
