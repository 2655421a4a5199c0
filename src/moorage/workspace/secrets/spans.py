"""Bytes that are to be masked, and the literals that each kind of secret holds. Pure."""

from __future__ import annotations

import re

import msgspec

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
