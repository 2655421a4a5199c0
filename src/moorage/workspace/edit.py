"""Replace exact text in bytes; pure. Without exactly one match, say where it might be."""

from __future__ import annotations

import re

import msgspec

from moorage.workspace.text.candidates import Candidate, CandidateLimits, find_candidates, place_at

PLACEHOLDER = "[REDACTED]"

_REPLACEMENT_CHARACTER = "\N{REPLACEMENT CHARACTER}".encode()
# What read_file's view puts before a line: a number on some lines, a bar on all.
_NUMBERING = re.compile(rb"^[ \t]*\d*\|", re.MULTILINE)
_BAR_ON_EVERY_LINE = re.compile(rb"(?:[ \t]*\d*\|[^\n]*(?:\n|\Z))+")
# Matches that are told apart in the result of an edit of all; more are applied, but not listed.
_LISTED_MATCHES = 1000


class Edited(msgspec.Struct, frozen=True, kw_only=True):
    """The new content, and where it differs from the old one.

    ``starts`` holds the byte offsets of the first matches in the old content; each was
    ``old_length`` bytes long and is ``new_length`` bytes now.
    """

    data: bytes
    replacements: int
    starts: tuple[int, ...]
    old_length: int
    new_length: int


class NoMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The text is not there; the candidates are the places most like it."""

    candidates: tuple[Candidate, ...]
    hint: str


class ManyMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The text is there more than once; the candidates are the first places."""

    candidates: tuple[Candidate, ...]
    count: int


def replace_text(
    data: bytes,
    old_text: str,
    new_text: str,
    *,
    replace_all: bool = False,
    limits: CandidateLimits | None = None,
) -> Edited | NoMatch | ManyMatches:
    """Return the outcome of replacing ``old_text`` (not empty) in ``data``.

    A file that has only CRLF accepts LF in both texts and stays CRLF; any other needs exact bytes.
    """
    limits = limits or CandidateLimits()
    old, new = old_text.encode(), new_text.encode()
    if has_only_crlf(data):
        old, new = _with_crlf(old), _with_crlf(new)
    first = data.find(old)
    if first < 0:
        hint, likely = _explain_absence(data, old)
        return NoMatch(candidates=find_candidates(data, likely, limits), hint=hint)
    if replace_all:
        return _replace_all(data, old, new, first)
    # From the next byte, not after the match: overlapping matches are two places as well.
    if data.find(old, first + 1) >= 0:
        return _many(data, old, limits)
    return Edited(
        data=data[:first] + new + data[first + len(old) :],
        replacements=1,
        starts=(first,),
        old_length=len(old),
        new_length=len(new),
    )


def has_only_crlf(data: bytes) -> bool:
    """Return whether every line of ``data`` ends in CRLF, and there is at least one."""
    if b"\r" not in data:
        return False
    count = data.count(b"\r\n")
    return count > 0 and count == data.count(b"\n")


def _with_crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _replace_all(data: bytes, old: bytes, new: bytes, first: int) -> Edited:
    starts: list[int] = []
    start = first
    while start >= 0 and len(starts) < _LISTED_MATCHES:
        starts.append(start)
        start = data.find(old, start + len(old))
    return Edited(
        data=data.replace(old, new),
        replacements=data.count(old),
        starts=tuple(starts),
        old_length=len(old),
        new_length=len(new),
    )


def _many(data: bytes, old: bytes, limits: CandidateLimits) -> ManyMatches:
    places: list[Candidate] = []
    start = data.find(old)
    while start >= 0 and len(places) < limits.listed_matches:
        places.append(place_at(data, start, len(old), limits))
        start = data.find(old, start + 1)
    return ManyMatches(candidates=tuple(places), count=max(data.count(old), len(places)))


def _explain_absence(data: bytes, old: bytes) -> tuple[str, bytes]:
    """Return what may be wrong with the text, and the text that was probably meant."""
    if _BAR_ON_EVERY_LINE.fullmatch(old) is not None:
        bare = _NUMBERING.sub(b"", old)
        if bare and bare in data:
            return (
                "old_text carries the line numbers of the view; leave out the numbers and bars.",
                bare,
            )
    if b"\r" in data and old.replace(b"\r\n", b"\n") in data.replace(b"\r\n", b"\n"):
        return (
            "Only the line ends differ: this file mixes CRLF and LF, so old_text needs the exact "
            "ones.",
            old,
        )
    if PLACEHOLDER.encode() in old:
        return (
            f"old_text holds {PLACEHOLDER}, which stands in output for something else; read_file "
            "shows what the file really holds.",
            old,
        )
    if _REPLACEMENT_CHARACTER in old:
        return (
            "old_text holds the character that stands for bytes which are not UTF-8; choose text "
            "around them.",
            old,
        )
    return "", old
