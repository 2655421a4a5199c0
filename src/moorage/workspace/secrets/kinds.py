"""Where secrets of known kinds stand in a piece of output; a decision on bytes alone.

Each kind is tried only where a literal word of it was found, and decides within a bounded distance,
so the time is linear in the text whatever the text is. No kind but a private key crosses a line.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

import msgspec

from moorage.workspace.secrets import spans
from moorage.workspace.secrets.assignments import (
    Assignment,
    is_ordinary_text,
    is_word_after_scheme,
    reads_as_code,
)
from moorage.workspace.secrets.spans import Span

_KEY = re.compile(
    rb"(api[_-]?key|token|authorization|passw(?:or)?d|secret(?:[_-]?(?:access[_-]?)?key)?)"
    rb"(?:\\{0,3}[\"'`])?\]?([ \t]{0,16})"
    rb"(:=|=>|:(?!:|//|=)|=(?![=~>]))"
    rb"([ \t]{0,16})"
    rb"((?:bearer|basic|digest|negotiate|token)[ \t]{1,16})?",
    re.IGNORECASE,
)
_OPENING = re.compile(rb"[A-Za-z@$]{0,2}(\\{0,3})([\"'`])")
_VALUE = re.compile(
    rb"(?:[^\s\"'`,;&|<>()\[\]{}\\$*@]|\$(?![A-Za-z_{(\[]))[^\s\"'`,;&|<>\\)\]}]{0,255}"
)
_VALUE_REST = re.compile(rb"[^\s\"'`,;&|<>\\)\]}]*")
_QUOTED = {quote: re.compile(rb"(?:[^%b\\\n]|\\[^\n])*+" % quote) for quote in (b'"', b"'", b"`")}
_QUOTED_REST = {quote: re.compile(rb"[^%b\n]*" % quote) for quote in _QUOTED}
_ESCAPED_QUOTED = re.compile(rb"[^\"'`\\\n]*")

_BEARER = re.compile(rb"(?<![a-z\]])bearer[ \t]{1,16}([\w.~+/=-]{8,})", re.IGNORECASE | re.ASCII)
_BEARER_REST = re.compile(rb"[\w.~+/=-]*", re.ASCII)
_PREFIXED = re.compile(rb"(?<![a-z0-9\]])sk-([\w-]{8,})", re.IGNORECASE | re.ASCII)
_PREFIXED_REST = re.compile(rb"[\w-]*", re.ASCII)
_WORDS_WITH_DASHES = re.compile(
    rb"(?!(?:admin|ant|lf|live|or|proj|svcacct|test)-)[a-z]{1,12}(?:-[a-z]{1,12})+"
)
_WEB_TOKEN_RUN = re.compile(rb"[\w-]+", re.ASCII)
_WEB_TOKEN_SECOND_PART = re.compile(rb"\.[\w-]{10}", re.ASCII)
_WEB_TOKEN_REST = re.compile(rb"[\w.-]*", re.ASCII)
_LONGEST_WEB_TOKEN_HEADER = 2048
# How the letters alg look in base64, at each of the three places within a group of bytes.
_ENCODED_ALGORITHM = re.compile(rb"YWxn|FsZ|hbG")
_SHORTEST_WEB_TOKEN_PART = 10
_LONGEST_WORDS = 64

_FOLLOWING_BYTES = 24
_OVERLAP_BYTES = 64
"""How far before the end of a value the search goes on: the next key may begin inside it."""


def find_kinds(block: bytes, lowered: bytes, literals: list[bytes]) -> list[Span]:
    """Return the secrets of the kinds whose literals were found; in no order."""
    found: list[Span] = []
    for literal in literals:
        match literal:
            case spans.BEARER:
                found.extend(_bearers(block, lowered))
            case spans.PREFIX:
                found.extend(_prefixed(block, lowered))
            case spans.WEB_TOKEN:
                found.extend(_web_tokens(block))
            case word:
                found.extend(_assigned(block, lowered, word))
    return found


def _assigned(block: bytes, lowered: bytes, word: bytes) -> Iterator[Span]:
    """Yield the values that follow a telling key and a colon or an equals sign."""
    at = lowered.find(word)
    while at >= 0:
        key = _KEY.match(block, at)
        span = _value(block, at, key) if key is not None else None
        if span is None:
            at = lowered.find(word, at + len(word))
        else:
            yield span
            at = lowered.find(word, max(at + len(word), span.end - _OVERLAP_BYTES))


def _value(block: bytes, at: int, key: re.Match[bytes]) -> Span | None:
    begin = key.end()
    opening = _OPENING.match(block, begin)
    if opening is not None:
        return _quoted_value(block, opening, key[1])
    value = _VALUE.match(block, begin)
    if value is None:
        return None
    end = value.end()
    line_end = block.find(b"\n", end, end + _FOLLOWING_BYTES)
    assignment = Assignment(
        key=key[1].lower(),
        separator=key[3],
        is_tight=not key[2] and not key[4],
        value=value[0],
        following=block[end : end + _FOLLOWING_BYTES if line_end < 0 else line_end],
        is_after_slash=block[at - 1 : at] == b"/",
        has_scheme=key[5] is not None,
    )
    if reads_as_code(assignment):
        return None
    rest = _VALUE_REST.match(block, end)
    return Span(begin, rest.end() if rest is not None else end, _VALUE_REST)


def _quoted_value(block: bytes, opening: re.Match[bytes], key: bytes) -> Span | None:
    quote = opening[2]
    inside = _ESCAPED_QUOTED if opening[1] else _QUOTED[quote]
    content = inside.match(block, opening.end())
    if content is None or is_ordinary_text(content[0], key):
        return None
    rest = _ESCAPED_QUOTED if opening[1] else _QUOTED_REST[quote]
    return Span(content.start(), content.end(), rest)


def _bearers(block: bytes, lowered: bytes) -> Iterator[Span]:
    at = lowered.find(b"bearer")
    while at >= 0:
        found = _BEARER.match(block, at)
        if found is not None and not is_word_after_scheme(found[1]):
            yield Span(found.start(1), found.end(), _BEARER_REST)
        at = lowered.find(b"bearer", found.end() if found is not None else at + 6)


def _prefixed(block: bytes, lowered: bytes) -> Iterator[Span]:
    at = lowered.find(b"sk-")
    while at >= 0:
        found = _PREFIXED.match(block, at)
        if found is not None and not _is_words(found[1]):
            yield Span(at, found.end(), _PREFIXED_REST)
        at = lowered.find(b"sk-", found.end() if found is not None else at + 3)


def _is_words(body: bytes) -> bool:
    """Return whether what follows the prefix is words, as in the style name sk-folding-cube."""
    return len(body) <= _LONGEST_WORDS and _WORDS_WITH_DASHES.fullmatch(body) is not None


def _web_tokens(block: bytes) -> Iterator[Span]:
    """Yield JSON web tokens: the first part must decode to an object that names an algorithm."""
    at = block.find(b"eyJ")
    while at >= 0:
        run = _WEB_TOKEN_RUN.match(block, at)
        end = run.end() if run is not None else at + 3
        if _WEB_TOKEN_SECOND_PART.match(block, end) and _names_algorithm(block[at:end]):
            rest = _WEB_TOKEN_REST.match(block, end)
            end = rest.end() if rest is not None else end
            yield Span(at, end, _WEB_TOKEN_REST)
        at = block.find(b"eyJ", end)


def _names_algorithm(header: bytes) -> bool:
    if not _SHORTEST_WEB_TOKEN_PART <= len(header) <= _LONGEST_WEB_TOKEN_HEADER:
        return False
    if _ENCODED_ALGORITHM.search(header) is None:
        return False
    padded = header.replace(b"-", b"+").replace(b"_", b"/") + b"=" * (-len(header) % 4)
    try:
        decoded = msgspec.json.decode(binascii.a2b_base64(padded))
    except (ValueError, msgspec.DecodeError):
        return False
    return isinstance(decoded, dict) and "alg" in decoded
