"""Recognise private keys in text armour: whole, cut off, numbered, or escaped. Pure."""

from __future__ import annotations

import re

import msgspec

_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LINE_END = re.compile(rb"[\"',]?[ \t]{0,8}(?:\r?\n|\\+[nr])")
_SEPARATORS = re.compile(rb"(?:[\s\"',+|>]|\\[nrt]?)*+")
# Line numbers, names of files before them, and the mark of a diff.
_DECORATION = re.compile(rb"(?:[\w./]{1,100}[:-])?\d{1,7}[:|\t -][ \t]{0,8}|[\w./]{1,100}:|-(?!-)")
_FIELD = re.compile(rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): [^\n\\]{0,200}")
_SURE_RUN = re.compile(rb"[A-Za-z0-9+/]{32,}={0,2}")
_RUN = re.compile(rb"[\w+/=.*]+", re.ASCII)

_REST = re.compile(rb"[A-Za-z0-9+/=\s]*")
_LOOKAHEAD_BYTES = 400
"""No part but a run is longer; so a part that ends this far from the end is read for good."""

_SURE_RUN_BYTES = 32
"""So much without a space after the header is key material, even when no end follows."""

_UNSURE_RUNS = 32
"""After so many shorter runs in a row, what follows the header is taken for prose."""


class Verdict(msgspec.Struct, frozen=True):
    """Where a key ends, 0 when there is none; ``rest`` goes on when it fills the whole window."""

    end: int
    rest: re.Pattern[bytes] | None = None


class _Part(msgspec.Struct, frozen=True):
    start: int
    end: int
    is_last: bool


def judge_key(window: bytes, *, is_complete: bool) -> Verdict | None:
    """Return whether a key begins with the window, which starts with the header.

    ``is_complete`` says that no more bytes will help: the window is full or the text is over. The
    answer is ``None`` while more bytes could change it.
    """
    begin = _BEGIN.match(window)
    if begin is None:
        is_open = len(window) < _LOOKAHEAD_BYTES and b"\n" not in window
        return None if is_open and not is_complete else Verdict(0)
    has_body = False
    is_line = _LINE_END.match(window, begin.end()) is not None
    at, sure_end, unsure = begin.end(), 0, 0
    while unsure <= _UNSURE_RUNS:
        part = _part(window, at)
        if part.is_last:
            return Verdict(part.end if has_body else 0)
        is_near = len(window) - at < _LOOKAHEAD_BYTES or part.end == len(window)
        if is_near and not is_complete:
            return None
        if part.end == part.start:
            break
        at = part.end
        if at - part.start >= _SURE_RUN_BYTES:
            sure_end, unsure, has_body = at, 0, True
        else:
            unsure, has_body = unsure + 1, has_body or is_line
    # The window may have cut the last run, so one short run at its end speaks for nothing.
    goes_on = sure_end > 0 and at == len(window) and unsure <= 1
    return Verdict(sure_end, _REST if goes_on else None)


def _part(window: bytes, at: int) -> _Part:
    """Return the next run of characters after separators, or the end line of the key."""
    at = _end_of(_SEPARATORS, window, at)
    decorated = _end_of(_DECORATION, window, at)
    for start in (at, decorated):
        last = _END.match(window, start)
        if last is not None:
            return _Part(start, last.end(), is_last=True)
    end = max(_end_of(_FIELD, window, at), _end_of(_SURE_RUN, window, at))
    if end > at:
        return _Part(at, end, is_last=False)
    return _Part(decorated, _end_of(_RUN, window, decorated), is_last=False)


def _end_of(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return at if found is None else found.end()
