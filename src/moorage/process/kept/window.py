"""A window of a log as text: secrets masked as the whole log shows them, no character cut in half.

The offsets of a window are those of the raw log, whatever was masked in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from moorage.process.capture import Masker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moorage.process.kept.log import OutputLog

MASK = "[REDACTED]"
_LONGEST_CHARACTER = 4


class PlaceMasker(Masker, Protocol):
    """Masks secrets, and tells where they lie; ``workspace.redact.Redactor`` is one."""

    def spans(self, data: bytes) -> Sequence[tuple[int, int]]:
        """Return where the secrets lie, in order and apart."""


class Window(NamedTuple):
    """Text, and the raw bytes that it stands for."""

    text: str
    start: int
    end: int


def unfinished(data: bytes) -> int:
    """Return how many bytes at the end begin a character that more bytes could complete."""
    for length in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return length if length < needed and byte < 0xF8 else 0
        if byte < 0x80:
            return 0
    return 0


def _continuing(data: bytes) -> int:
    """Return how many bytes at the start belong to a character that began before."""
    length = 0
    while length < min(_LONGEST_CHARACTER - 1, len(data)) and data[length] & 0xC0 == 0x80:
        length += 1
    return length if length < len(data) else 0


class WindowReader:
    """Reads windows of one log."""

    def __init__(self, log: OutputLog, context_bytes: int) -> None:
        """Look for secrets so far around each window."""
        self._log = log
        self._context_bytes = context_bytes

    def tail(self, masker: PlaceMasker, max_bytes: int, *, is_over: bool) -> Window:
        """Return the last bytes."""
        start = max(self._log.base, self._log.total - max_bytes)
        if start > self._log.base:
            start += _continuing(self._log.read(start, start + _LONGEST_CHARACTER))
        return self.at(masker, start, max_bytes, is_over=is_over)

    def at(self, masker: PlaceMasker, offset: int, max_bytes: int, *, is_over: bool) -> Window:
        """Return the bytes from an offset on; it is moved to what is kept.

        ``is_over`` says that the log will not grow: an unfinished character at its end stays one.
        """
        start = min(max(offset, self._log.base), self._log.total)
        end = self._end(start, max_bytes, is_over=is_over)
        if start == end:
            return Window("", start, end)
        before = max(self._log.base, start - self._context_bytes)
        block = self._log.read(before, min(end + self._context_bytes, self._log.total))
        # What is looked at begins with a line, as far as there is one.
        skipped = block.rfind(b"\n", 0, start - before) + 1 if not _has_key(block) else 0
        before += skipped
        block = block[skipped:]
        spans = [(before + a, before + b) for a, b in masker.spans(block)]
        return Window(_shown(block, before, spans, (start, end)), start, end)

    def _end(self, start: int, max_bytes: int, *, is_over: bool) -> int:
        """Return where a window ends, at most at ``max_bytes``, and with a whole character."""
        total = self._log.total
        end = min(start + max_bytes, total)
        if end == total and is_over:
            return end
        data = self._log.read(max(start, end - _LONGEST_CHARACTER), end)
        end -= unfinished(data)
        if end == start and start + max_bytes < total:
            # Not even one character fits: it is given whole, or nothing would ever be.
            character = self._log.read(start, start + _LONGEST_CHARACTER)
            for length in range(1, len(character) + 1):
                if not unfinished(character[:length]):
                    return start + length
            return min(start + len(character), total) if is_over else start
        return end


def _has_key(block: bytes) -> bool:
    return b"-----BEGIN " in block


def _shown(
    block: bytes, before: int, spans: Sequence[tuple[int, int]], window: tuple[int, int]
) -> str:
    """Return a part of a block as text; a secret is shown as one mask, where it begins."""
    start, end = window
    parts: list[str] = []
    at = start
    for first, last in spans:
        if last <= at or first >= end:
            continue
        if first >= at:
            parts += (_text(block[at - before : first - before]), MASK)
        at = min(last, end)
    parts.append(_text(block[at - before : end - before]))
    return "".join(parts)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
