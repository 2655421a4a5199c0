"""Tell a secret from source code and prose, where a value follows a key such as ``token``.

Masking must not damage what a model reads: a type named token, a call, a parameter passed on, a
sentence about passwords. When nothing speaks for code, the value counts as secret. Pure.
"""

from __future__ import annotations

import re

import msgspec


class Assignment(msgspec.Struct, frozen=True):
    """An unquoted value and what stands around it."""

    key: bytes
    """In lower case."""

    separator: bytes
    is_tight: bool
    """No space around the separator, as in a shell, a query string or a connection string."""

    value: bytes
    following: bytes
    """What follows the value in its line."""

    is_after_slash: bool
    """The key is the last part of a path, as in ``/etc/passwd:``."""

    has_scheme: bool
    """A word such as Basic stands before the value."""


_NAME = re.compile(rb"[A-Za-z_]+")
_CALL = re.compile(rb"[A-Za-z_]\w*+(?:(?:\.|::|->)[A-Za-z_]\w*+)*+[?!]?[(\[{<]", re.ASCII)
_REFERENCE = (
    rb"\$(?:[A-Z][A-Z0-9_]*|[a-z_]+|[0-9@*#?!]|\{[^{}\n]{0,60}\}|\{\{[^{}\n]{0,60}\}\})"
    rb"|\{\{?[^{}\n]{0,60}\}?\}"
    rb"|<[\w .-]{0,60}>"
    rb"|%(?:\(\w+\))?[sdrvq]|%\w+%"
    rb"|\*+|\.+|[xX]{3,}"
)
_DOTTED = rb"[A-Za-z_]+(?:\.[A-Za-z_]+)+"
_SIZED_TYPE = rb"(?i:u?int|[iuf]|float|bytes|utf|sha|md)-?\d{1,3}(?:_t)?"
_TAG_OR_COLOUR = rb"![A-Za-z]+|#[0-9A-Fa-f]{3,8}"
_PLACEHOLDER = re.compile(_REFERENCE, re.ASCII)
_EXPRESSION = re.compile(
    rb"|".join((_REFERENCE, _DOTTED, _SIZED_TYPE, _TAG_OR_COLOUR, rb"[^A-Za-z0-9\x80-\xff]+")),
    re.ASCII,
)
_MORE_WORDS = re.compile(rb"[.,:]?[ \t]+[A-Za-z]")
_CLOSERS = frozenset((b",", b")", b"]", b"}", b";"))
_WORD = re.compile(rb"[A-Za-z0-9\x80-\xff]")

# Words that stand where a value could: literals, types, and what forms and logs say.
_ORDINARY_WORDS = frozenset(
    b"any array auto bool boolean buffer byte bytes char const dict double enum error false file"
    b" float function hash identifier int integer invalid list long map missing nil no none null"
    b" number object ok optional option password passwd secret private public required self set"
    b" short some str string struct symbol text this token true tuple type undefined unknown"
    b" unset varchar void wrong yes changed incorrect denied hidden failed expired empty"
    b" revoked valid break continue pass raise return yield await new".split()
)
# A bearer is also a person, and these words follow in sentences about authentication.
_AFTER_SCHEME = frozenset(
    b"authentication authorization certificates challenges credentials instrument instruments"
    b" identity protected required security services supported tokenauth transport".split()
)
_TELLING_PARTS = (b"token", b"passw", b"secret", b"auth", b"cred", b"key")
_MASK = b"[REDACTED]"
_LONGEST_ORDINARY_TEXT = 64
_SHORTEST_OPAQUE = 6
_SHORTEST_OPAQUE_LETTERS = 16


def is_ordinary_text(content: bytes, key: bytes) -> bool:
    """Return whether the content of a quoted value is a placeholder rather than a secret."""
    if content.startswith(_MASK):
        return True
    if len(content) > _LONGEST_ORDINARY_TEXT:
        return False
    if _WORD.search(content) is None:
        return True
    word = content.strip()
    if word.lower() in _ORDINARY_WORDS or word.lower() == key.lower():
        return True
    return _PLACEHOLDER.fullmatch(word) is not None


def is_word_after_scheme(value: bytes) -> bool:
    """Return whether what follows the word Bearer or Basic goes on with a sentence."""
    word = value.rstrip(b".").lower()
    return word in _AFTER_SCHEME or word in _ORDINARY_WORDS


def reads_as_code(assignment: Assignment) -> bool:
    """Return whether an unquoted value is code, a type, prose or a number rather than a secret."""
    value = assignment.value
    if _MASK[:-1] in value:
        return True
    if assignment.has_scheme:
        return len(value) < _SHORTEST_OPAQUE or is_word_after_scheme(value)
    if assignment.is_after_slash and assignment.separator == b":" and assignment.is_tight:
        return True
    if len(value) < 2 or value.rstrip(b".!?:").lower() in _ORDINARY_WORDS:
        return True
    if _EXPRESSION.fullmatch(value) is not None:
        return True
    if _CALL.match(value + assignment.following[:1]) is not None:
        return True
    if _NAME.fullmatch(value) is not None:
        return _is_name(assignment)
    return not _may_be_word(assignment.key) and len(value) < _SHORTEST_OPAQUE


def _may_be_word(key: bytes) -> bool:
    """Return whether people choose the value themselves; a token is made, and never a word."""
    return key.startswith((b"passw", b"secret", b"api"))


def _is_name(assignment: Assignment) -> bool:
    """Judge a value of letters and underscores alone, which may be a variable or a word."""
    value = assignment.value
    may_be_word = _may_be_word(assignment.key)
    if assignment.following[:1] in _CLOSERS:
        is_short = not may_be_word and len(value) < _SHORTEST_OPAQUE_LETTERS
        return is_short or _looks_chosen_by_programmer(value)
    if assignment.is_tight and assignment.separator == b"=":
        return not may_be_word and len(value) < _SHORTEST_OPAQUE
    if b"_" in value or not (value.islower() or value.isupper()):
        return True
    if not may_be_word:
        return len(value) < _SHORTEST_OPAQUE_LETTERS
    return _MORE_WORDS.match(assignment.following) is not None


def _looks_chosen_by_programmer(value: bytes) -> bool:
    lowered = value.lower()
    return (
        len(value) < _SHORTEST_OPAQUE
        or b"_" in value
        or value != lowered
        or any(part in lowered for part in _TELLING_PARTS)
    )
