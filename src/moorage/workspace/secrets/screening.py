"""Screen bytes for the literals without which there is no secret, before any pattern is compiled.

Most output has none of them, so the patterns are imported when the first literal is found: making
them takes longer than a short command.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from moorage.workspace.secrets.byte_search import holds

if TYPE_CHECKING:
    from moorage.workspace.secrets.private_keys import Verdict

KEY_HEADER = b"-----BEGIN "
"""The literal that every armoured private key starts with."""

KEY_WINDOW_BYTES = 16 * 1024
"""How far a key is followed before it is masked piecemeal; RSA with 16384 bits takes 12.5 KiB."""

BEARER = b"bearer"
PREFIX = b"sk-"
WEB_TOKEN = b"eyJ"
KEYS = (b"token", b"passw", b"secret", b"authoriz", b"api")


class Span(msgspec.Struct, frozen=True):
    """Bytes to mask; ``rest`` matches what may follow when the span reaches the end of a piece."""

    start: int
    end: int
    rest: re.Pattern[bytes]


def may_hold_secret(data: bytes) -> bool:
    """Return whether data holds any byte that every kind of secret needs one of; very fast."""
    return (
        b":" in data
        or b"=" in data
        or b"-" in data
        or b"." in data
        or b"b" in data
        or b"B" in data
    )


def find_spans(block: bytes) -> list[Span]:
    """Return the secrets in a block, in order and without overlaps."""
    # Single bytes are found ten times faster than words, so they decide whether words are sought.
    if not may_hold_secret(block):
        return []
    lowered = block.lower()
    literals = [BEARER] if holds(lowered, BEARER) else []
    if b":" in block or b"=" in block:
        literals += [word for word in KEYS if holds(lowered, word)]
    if b"-" in block and holds(lowered, PREFIX):
        literals.append(PREFIX)
    if b"." in block and holds(block, WEB_TOKEN):
        literals.append(WEB_TOKEN)
    if not literals:
        return []
    from moorage.workspace.secrets.kinds import find_kinds  # noqa: PLC0415 - see above

    return merged(find_kinds(block, lowered, literals))


def judge_key(window: bytes, *, is_complete: bool) -> Verdict | None:
    """Return whether a private key begins with the window, which starts at ``KEY_HEADER``."""
    from moorage.workspace.secrets import private_keys  # noqa: PLC0415 - see above

    return private_keys.judge_key(window, is_complete=is_complete)


def merged(found: list[Span]) -> list[Span]:
    """Return the spans in order; those that touch or overlap become one."""
    if len(found) < 2:
        return found
    found.sort(key=_by_place)
    kept = found[:1]
    for span in found[1:]:
        last = kept[-1]
        if span.start > last.end:
            kept.append(span)
        elif span.end > last.end:
            kept[-1] = Span(last.start, span.end, span.rest)
    return kept


def _by_place(span: Span) -> tuple[int, int]:
    return span.start, span.end
