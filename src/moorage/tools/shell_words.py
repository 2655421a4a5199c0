"""Split a command line into words and operators, as far as recognising it needs. Pure.

Nothing is expanded. A line that this cannot split for sure is split by nobody: it gives ``None``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"[ \t]*+(?:"
    r"(?P<redirection>(?:\d*|&)(?:>>|>\||>&|<&|[<>])[ \t]*+(?:[^\s'\"\\;&|<>()`$]++))"
    r"|(?P<operator>&&|\|\||\|&|;;|[;&|\n()])"
    r"|(?P<word>(?:[^\s'\"\\;&|<>()`]++|'[^']*+'|\"(?:[^\"\\`]|\\.)*+\"|\\.)++)"
    r")"
)
_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^'\"\\]+)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([\"\\$`])")


class ShellWord(NamedTuple):
    """One word as it is written, and its text without quotes; ``start`` is where it begins."""

    text: str
    start: int
    end: int


class ShellLine(NamedTuple):
    """A line as simple commands and the operators between them; redirections are left out."""

    commands: tuple[tuple[ShellWord, ...], ...]
    operators: tuple[str, ...]


def split(command: str) -> ShellLine | None:
    """Return the words of a line, or ``None`` when quoting or substitution is in the way."""
    if "`" in command or "$(" in command or "<(" in command or ">(" in command:
        return None
    commands: list[tuple[ShellWord, ...]] = []
    operators: list[str] = []
    words: list[ShellWord] = []
    text = command.strip()
    offset = len(command) - len(command.lstrip())
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token["word"] is not None:
            start = token.start("word") + offset
            words.append(ShellWord(_unquoted(token["word"]), start, token.end() + offset))
        elif token["operator"] is not None:
            commands.append(tuple(words))
            operators.append(token["operator"])
            words = []
    commands.append(tuple(words))
    return ShellLine(tuple(commands), tuple(operators))


def _unquoted(word: str) -> str:
    if not any(mark in word for mark in "'\"\\"):
        return word
    parts: list[str] = []
    for piece in _PIECE.finditer(word):
        single, double, escaped, plain = piece.groups()
        if double is not None:
            parts.append(_ESCAPED_IN_QUOTES.sub(r"\1", double))
        else:
            parts.append(next(part for part in (single, escaped, plain) if part is not None))
    return "".join(parts)
