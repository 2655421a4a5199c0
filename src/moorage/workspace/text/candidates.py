"""Find the places of a file that are most like a text that is not in it; pure, and quick to end.

The rarest words of the text are looked up in the file, each hit votes for the line where the text
would then begin, and only the places with most votes are compared closely.
"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

_WORD = re.compile(rb"[A-Za-z0-9\x80-\xff]{2,}")
# Of a longer word, its ends are looked up: a slip in the middle does not hide it then.
_LONG_WORD_BYTES = 12
_WORD_END_BYTES = 8


class CandidateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is searched, compared and shown."""

    words: int = 8
    hits_per_word: int = 100
    compared_places: int = 4
    compared_lines: int = 24
    compared_line_bytes: int = 160
    least_score: float = 0.4
    listed_candidates: int = 3
    listed_matches: int = 5
    snippet_lines: int = 6
    snippet_line_characters: int = 200


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A range of lines, counted from 1, how like the text it is, and what it says."""

    start_line: int
    end_line: int
    score: float
    snippet: str
    hint: str = ""


def find_candidates(data: bytes, text: bytes, limits: CandidateLimits) -> tuple[Candidate, ...]:
    """Return the places most like ``text``, best first."""
    wanted = text.strip(b"\r\n").split(b"\n")
    found = []
    for line, offset in _likely_places(data, wanted, limits):
        window = _lines_from(data, offset, len(wanted))
        score = _likeness(wanted, window, limits)
        if score >= limits.least_score:
            found.append((score, line, window))
    found.sort(key=lambda item: (-item[0], item[1]))
    return tuple(
        Candidate(
            start_line=line + 1,
            end_line=line + len(window),
            score=round(score, 2),
            snippet=_snippet(window, limits),
            hint=_white_space_hint(wanted, window),
        )
        for score, line, window in found[: limits.listed_candidates]
    )


def place_at(data: bytes, start: int, length: int, limits: CandidateLimits) -> Candidate:
    """Return the lines that hold the match of ``length`` bytes at ``start``."""
    first = data.rfind(b"\n", 0, start) + 1
    last = data.find(b"\n", max(start, start + length - 1))
    window = data[first : len(data) if last < 0 else last].split(b"\n")
    start_line = data.count(b"\n", 0, start) + 1
    return Candidate(
        start_line=start_line,
        end_line=start_line + len(window) - 1,
        score=1.0,
        snippet=_snippet(window, limits),
    )


def _likely_places(
    data: bytes, wanted: list[bytes], limits: CandidateLimits
) -> list[tuple[int, int]]:
    """Return line number (from 0) and byte offset of the lines with most votes."""
    hits: list[tuple[int, set[int], float]] = []
    for word, places in _words(wanted, limits).items():
        found = _hits(data, word, limits.hits_per_word)
        # A rare word says more than a common one.
        hits += [(hit, places, len(word) / len(found)) for hit in found]
    hits.sort(key=lambda item: item[0])
    votes: dict[int, float] = {}
    seen: dict[int, tuple[int, int]] = {}
    line = counted = 0
    for hit, places, weight in hits:
        line += data.count(b"\n", counted, hit)
        counted = hit
        for place in places:
            start = max(0, line - place)
            votes[start] = votes.get(start, 0.0) + weight
            seen.setdefault(start, (hit, line - start))
    best = sorted(votes, key=lambda start: (-votes[start], start))[: limits.compared_places]
    return [(start, _back(data, *seen[start])) for start in best]


def _back(data: bytes, offset: int, lines: int) -> int:
    """Return where the line begins that is ``lines`` above the one at ``offset``."""
    for _ in range(lines + 1):
        offset = data.rfind(b"\n", 0, offset)
    return offset + 1


def _lines_from(data: bytes, offset: int, count: int) -> list[bytes]:
    end = offset - 1
    for _ in range(count):
        end = data.find(b"\n", end + 1)
        if end < 0:
            end = len(data)
            break
    return data[offset:end].split(b"\n")


def _words(wanted: list[bytes], limits: CandidateLimits) -> dict[bytes, set[int]]:
    """Return the longest words of the text and the lines on which they stand."""
    words: dict[bytes, set[int]] = {}
    for place, line in enumerate(wanted[: limits.compared_lines]):
        for word in _WORD.findall(line[: limits.compared_line_bytes]):
            for part in _parts(word):
                words.setdefault(part, set()).add(place)
    longest = sorted(words, key=len, reverse=True)[: limits.words]
    return {word: words[word] for word in longest}


def _parts(word: bytes) -> tuple[bytes, ...]:
    if len(word) <= _LONG_WORD_BYTES:
        return (word,)
    return word[:_WORD_END_BYTES], word[-_WORD_END_BYTES:]


def _hits(data: bytes, word: bytes, most: int) -> list[int]:
    hits: list[int] = []
    hit = data.find(word)
    while hit >= 0 and len(hits) < most:
        hits.append(hit)
        hit = data.find(word, hit + len(word))
    return hits


def _likeness(wanted: list[bytes], window: list[bytes], limits: CandidateLimits) -> float:
    """Return how like two runs of lines are, from 0 to 1; longer lines count more."""
    total = matched = 0.0
    size = limits.compared_line_bytes
    for left, right in list(zip(wanted, window, strict=False))[: limits.compared_lines]:
        weight = 1 + min(size, max(len(left), len(right)))
        total += weight
        matched += weight * _line_likeness(left.strip()[:size], right.strip()[:size])
    unmatched = abs(len(wanted) - len(window))
    return matched / (total + unmatched) if total else 0.0


def _line_likeness(left: bytes, right: bytes) -> float:
    """Return the share of neighbouring pairs of bytes that two lines have in common."""
    if left == right:
        return 1.0
    ours = set(pairwise(left))
    theirs = set(pairwise(right))
    total = len(ours) + len(theirs)
    return 2 * len(ours & theirs) / total if total else 0.0


def _white_space_hint(wanted: list[bytes], window: list[bytes]) -> str:
    if [line.strip() for line in wanted] == [line.strip() for line in window]:
        return "Only white space at the start or end of lines differs."
    return ""


def _snippet(lines: list[bytes], limits: CandidateLimits) -> str:
    width = limits.snippet_line_characters
    return "\n".join(
        line.decode("utf-8", "replace").rstrip("\r")[:width]
        for line in lines[: limits.snippet_lines]
    )
