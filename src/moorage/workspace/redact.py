"""Mask secrets in what a command printed, before anyone sees or keeps it.

The same bytes give the same result however they arrive: a line is judged as a whole, and a line
that is too long to be held is cut where its own content says, never where a read ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from moorage.workspace.secrets.byte_search import holds
from moorage.workspace.secrets.screening import find_spans, judge_key, may_hold_secret
from moorage.workspace.secrets.spans import KEY_HEADER, KEY_WINDOW_BYTES, Span, merged

MASK = b"[REDACTED]"
"""What stands in the place of a secret."""

LONGEST_LINE_BYTES = 8 * 1024
"""A line is judged as a whole up to this length, and in pieces of this length above."""

_STEP_BYTES = LONGEST_LINE_BYTES // 2
"""How much of a piece of an overlong line is decided; the rest of the piece is looked ahead."""

_BATCH_BYTES = 64 * 1024
"""So many bytes of whole lines are judged together: they stay in the processor's cache."""

_STEP_OF_KEY_BYTES = 64

_SHORTEST_SECRET_BYTES = 4
_SHORTEST_SECRET_LINE_BYTES = 8
_NOTHING = re.compile(rb"")
_FILLED = re.compile(rb"\xff+")


class Redactor:
    """Masks secrets of known kinds, and the exact values of known secrets."""

    def __init__(self, known_secrets: Iterable[str] = ()) -> None:
        """Keep the values; those shorter than four bytes would mask ordinary text and are not."""
        self._known = _needles(known_secrets)

    def text(self, text: str) -> str:
        """Return the text with its secrets masked."""
        data = text.encode("utf-8", "surrogatepass")
        masked = self.data(data)
        return text if masked is data else masked.decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Return the bytes with their secrets masked; the same object when there are none."""
        if len(data) <= LONGEST_LINE_BYTES and KEY_HEADER not in data:
            return _mask(data, self.find(data))
        stream = self.stream()
        return stream.feed(data) + stream.finish()

    def stream(self) -> RedactionStream:
        """Return a stream that masks bytes as they arrive."""
        return RedactionStream(self)

    def spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return where the secrets lie, as a stream would mask them; what touches is one."""
        if self.is_plain(data):
            return []
        filled = [RedactionStream(self, filler=filler) for filler in (b"\0", b"\xff")]
        low, high = (int.from_bytes(each.feed(data) + each.finish(), "big") for each in filled)
        differing = (low ^ high).to_bytes(len(data), "big")
        return [found.span() for found in _FILLED.finditer(differing)]

    def find(self, block: bytes) -> list[Span]:
        """Return what to mask in a block of lines, in order and without overlaps."""
        found = find_spans(block)
        if not self._known:
            return found
        known = list(self._find_known(block))
        return merged(found + known) if known else found

    def _find_known(self, block: bytes) -> Iterator[Span]:
        for needle in self._known:
            at = block.find(needle) if holds(block, needle) else -1
            while at >= 0:
                yield Span(at, at + len(needle), _NOTHING)
                at = block.find(needle, at + len(needle))

    def is_plain(self, data: bytes) -> bool:
        """Return whether data surely holds no secret, by the fastest tests there are."""
        return not may_hold_secret(data) and not any(holds(data, needle) for needle in self._known)


class RedactionStream:
    """Masks bytes as they arrive; holds back at most a line, a piece of one, or a key's window."""

    def __init__(self, redactor: Redactor, *, filler: bytes = b"") -> None:
        """Hold nothing yet; a ``filler`` stands in for each byte of a secret, and no mask."""
        self._redactor = redactor
        self._filler = filler
        self._held = b""
        self._needed_bytes = 0
        self._masking: re.Pattern[bytes] | None = None

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return those that are decided."""
        if len(self._held) + len(data) < self._needed_bytes:
            self._held += data
            return b""
        self._needed_bytes = 0
        return self._advance(self._held + data if self._held else data, is_final=False)

    def finish(self) -> bytes:
        """Return what was held back; nothing follows."""
        return self._advance(self._held, is_final=True)

    def _advance(self, buffer: bytes, *, is_final: bool) -> bytes:
        if self._masking is None and self._redactor.is_plain(buffer):
            end = len(buffer) if is_final else _decided_end(buffer)
            self._held = buffer[end:]
            return buffer[:end]
        masked: list[bytes] = []
        at = 0
        while at < len(buffer):
            if self._masking is not None:
                begun, at = at, self._mask_on(buffer, at)
                masked.append(self._filler * (at - begun))
                continue
            taken = self._take_piece(buffer, at, masked, is_final=is_final)
            if taken == at:
                break
            at = taken
        self._held = buffer[at:]
        return b"".join(masked)

    def _mask_on(self, buffer: bytes, at: int) -> int:
        """Drop what still belongs to a secret that began before; its mask stands already."""
        rest = self._masking.match(buffer, at) if self._masking is not None else None
        end = rest.end() if rest is not None else at
        if end < len(buffer):
            self._masking = None
        return end

    def _take_piece(self, buffer: bytes, at: int, masked: list[bytes], *, is_final: bool) -> int:
        """Mask whole lines or a piece of an overlong one; return where the next piece begins."""
        end = decided = _lines_end(buffer, at)
        if end == at:
            left = len(buffer) - at
            if left < LONGEST_LINE_BYTES and not is_final:
                return at
            end = decided = min(at + LONGEST_LINE_BYTES, len(buffer))
            if left >= LONGEST_LINE_BYTES:
                decided = at + _STEP_BYTES
        block = buffer[at:end]
        key_at = block.find(KEY_HEADER)
        while 0 <= key_at < decided - at:
            window = buffer[at + key_at : at + key_at + KEY_WINDOW_BYTES]
            verdict = judge_key(window, is_complete=is_final or len(window) == KEY_WINDOW_BYTES)
            if verdict is None:
                # Looked at again when there is a good part more: bytes that come one by one must
                # not have the whole window judged for each of them.
                self._needed_bytes = len(window) + max(len(window) // 4, _STEP_OF_KEY_BYTES)
                line = block.rfind(b"\n", 0, key_at) + 1
                masked.append(self._mask_all(block[:line]))
                return at + line
            if verdict.end:
                masked.append(self._mask_all(block[:key_at]))
                masked.append(self._filler * verdict.end or MASK)
                self._masking = verdict.rest
                return at + key_at + verdict.end
            key_at = block.find(KEY_HEADER, key_at + 1)
        return at + self._mask_block(block, decided - at, masked)

    def _mask_all(self, block: bytes) -> bytes:
        return _mask(block, self._redactor.find(block), self._filler)

    def _mask_block(self, block: bytes, decided: int, masked: list[bytes]) -> int:
        """Mask what begins in the decided part of a block and return how much of it is taken."""
        spans = [span for span in self._redactor.find(block) if span.start < decided]
        taken = decided
        if spans and spans[-1].end > decided:
            taken = spans[-1].end
        if spans and spans[-1].end == len(block):
            self._masking = spans[-1].rest
        masked.append(_mask(block[:taken], spans, self._filler))
        return taken


def _mask(block: bytes, spans: list[Span], filler: bytes = b"") -> bytes:
    """Return the block with every span replaced; the same object when there is none."""
    if not spans:
        return block
    parts: list[bytes] = []
    at = 0
    for span in spans:
        parts += (block[at : span.start], filler * (span.end - span.start) or MASK)
        at = span.end
    parts.append(block[at:])
    return b"".join(parts)


def _lines_end(buffer: bytes, at: int) -> int:
    """Return where a batch of whole lines ends, before any line that is overlong."""
    end = at
    while end - at < _BATCH_BYTES:
        line_end = buffer.rfind(b"\n", end, end + LONGEST_LINE_BYTES) + 1
        if not line_end:
            break
        end = line_end
    return end


def _decided_end(plain: bytes) -> int:
    """Return how far bytes without any secret are decided: the lines and pieces that are whole."""
    line = plain.rfind(b"\n") + 1
    overlong = len(plain) - line - LONGEST_LINE_BYTES
    return line if overlong < 0 else line + _STEP_BYTES * (overlong // _STEP_BYTES + 1)


def _needles(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Return what to look for: each value, or each line of a value with several lines."""
    needles: set[bytes] = set()
    for secret in secrets:
        lines = secret.encode("utf-8", "surrogatepass").strip().splitlines()
        shortest = _SHORTEST_SECRET_BYTES if len(lines) == 1 else _SHORTEST_SECRET_LINE_BYTES
        for line in map(bytes.strip, lines):
            if len(line) >= shortest and line not in MASK:
                needles.update(
                    line[at : at + _STEP_BYTES // 2] for at in range(0, len(line), _STEP_BYTES // 2)
                )
    return tuple(sorted(needles, key=len, reverse=True))
