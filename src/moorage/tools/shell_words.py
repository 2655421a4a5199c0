"""Split a command line into words and operators, as far as recognising it needs. Pure.

Nothing is expanded. A line that this cannot split for sure is split by nobody: it gives ``None``.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

# A line of these alone has no quotes, operators or expansions; most commands are such a line, and
# the patterns below need not be made for it.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_./,:@%+=")

_GRAMMAR = (
    r"[ \t]*+(?:"
    r"(?P<redirection>(?:\d*|&)(?:>>|>\||>&|<&|[<>])[ \t]*+(?:[^\s'\"\\;&|<>()`$]++))"
    r"|(?P<operator>&&|\|\||\|&|;;|[;&|\n()])"
    r"|(?P<word>(?:[^\s'\"\\;&|<>()`]++|'[^']*+'|\"(?:[^\"\\`]|\\.)*+\"|\\.)++)"
    r")"
)
_PIECE = r"(?s)'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^'\"\\]+)"
_ESCAPED_IN_QUOTES = r"\\([\"\\$`])"
# What a shell would expand, outside quotes and inside double ones.
_EXPANDED = r"[$*?\[\]]|^[~#!]|[=:]~"
_EXPANDED_IN_QUOTES = r"(?<!\\)\$"


class ShellWord(msgspec.Struct, frozen=True):
    """One word without its quotes, and where it is written; literal when nothing is expanded."""

    text: str
    start: int
    end: int
    is_literal: bool


class ShellLine(msgspec.Struct, frozen=True):
    """A line as simple commands and the operators between them; redirections are left out."""

    commands: tuple[tuple[ShellWord, ...], ...]
    operators: tuple[str, ...]
    has_redirection: bool = False

    @property
    def is_plain(self) -> bool:
        """Return whether this is one command of literal words and nothing else."""
        return not (self.operators or self.has_redirection) and all(
            word.is_literal for word in self.commands[0]
        )


def split(command: str) -> ShellLine | None:
    """Return the words of a line, or ``None`` when quoting or substitution is in the way."""
    if _PLAIN.issuperset(command):
        return ShellLine((_plain_words(command),), ())
    if "`" in command or "$(" in command or "<(" in command or ">(" in command:
        return None
    commands: list[tuple[ShellWord, ...]] = []
    operators: list[str] = []
    words: list[ShellWord] = []
    text = command.strip()
    offset = len(command) - len(command.lstrip())
    at, has_redirection = 0, False
    pattern = _grammar()
    while at < len(text):
        token = pattern.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token["word"] is not None:
            start = token.start("word") + offset
            words.append(_word(token["word"], start, token.end() + offset))
        elif token["operator"] is not None:
            commands.append(tuple(words))
            operators.append(token["operator"])
            words = []
        else:
            has_redirection = True
    commands.append(tuple(words))
    return ShellLine(tuple(commands), tuple(operators), has_redirection)


@lru_cache(maxsize=1)
def _grammar() -> re.Pattern[str]:
    return re.compile(_GRAMMAR)


def _plain_words(command: str) -> tuple[ShellWord, ...]:
    words: list[ShellWord] = []
    end = 0
    for text in command.split():
        start = command.index(text, end)
        end = start + len(text)
        words.append(ShellWord(text, start, end, is_literal=True))
    return tuple(words)


def _word(written: str, start: int, end: int) -> ShellWord:
    if not any(mark in written for mark in "'\"\\"):
        return ShellWord(written, start, end, not _is_expanded(written))
    parts: list[str] = []
    is_literal = True
    for piece in re.finditer(_PIECE, written):
        single, double, escaped, plain = piece.groups()
        if double is not None:
            parts.append(re.sub(_ESCAPED_IN_QUOTES, r"\1", double))
            is_literal = is_literal and re.search(_EXPANDED_IN_QUOTES, double) is None
        elif plain is not None:
            parts.append(plain)
            is_literal = is_literal and not _is_expanded(plain)
        else:
            parts.append(single if single is not None else escaped)
    return ShellWord("".join(parts), start, end, is_literal)


def _is_expanded(text: str) -> bool:
    """Return whether a shell may expand text that stands outside quotes."""
    if re.search(_EXPANDED, text) is not None:
        return True
    # Where an opened brace is closed depends on those in it, so all that follows counts.
    opened = text.partition("{")[2]
    return "," in opened or ".." in opened


def is_assignment(word: str) -> bool:
    """Return whether a word sets a variable for the command that follows."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()
