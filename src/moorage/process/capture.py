"""Keep one output stream in bounded memory: every byte counted, head and tail kept, the rest spilt.

What is kept, and what is handed to the spill, is masked. A stream that stays small is masked once,
when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from moorage.process.output import Excerpt, excerpt, head_end, tail_start

_LONGEST_CHARACTER = 4


class MaskingStream(Protocol):
    """Masks secrets in bytes as they arrive."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return those that are decided."""

    def finish(self) -> bytes:
        """Return what was held back."""


class Masker(Protocol):
    """Masks secrets; ``workspace.redact.Redactor`` is one."""

    def text(self, text: str) -> str:
        """Return the text with its secrets masked."""

    def data(self, data: bytes) -> bytes:
        """Return the bytes with their secrets masked."""

    def stream(self) -> MaskingStream:
        """Return a stream that masks bytes as they arrive."""


class CaptureLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a stream stays in memory."""

    whole_bytes: int = 64 * 1024
    """A stream up to this size is kept whole; it is also what a producer's stream may carry."""

    unmasked_bytes: int = 8 * 1024
    """So much is masked at once when the stream ends; a longer stream is masked as it arrives."""

    head_bytes: int = 21 * 1024
    tail_bytes: int = 42 * 1024
    """What is kept of a longer one: together, and with a line between, it is no longer."""


class StreamCapture:
    """What one stream printed."""

    def __init__(
        self, masker: Masker, limits: CaptureLimits, spill: Callable[[bytes], None]
    ) -> None:
        """Keep nothing yet; ``spill`` gets all masked bytes of a stream that grows too long."""
        self.total_bytes = 0
        """How many bytes were printed, before masking."""

        self.masked_bytes = 0
        """How many there are after masking."""

        self.is_whole = True
        """Whether everything is still in memory."""

        self._masker = masker
        self._limits = limits
        self._spill = spill
        self._masking: MaskingStream | None = None
        self._unmasked: list[bytes] = []
        self._head = b""
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total_bytes += len(data)
        if self._masking is None:
            self._unmasked.append(data)
            if self.total_bytes <= self._limits.unmasked_bytes:
                return
            data = b"".join(self._unmasked)
            self._unmasked = []
            self._masking = self._masker.stream()
        self._keep(self._masking.feed(data))

    def finish(self) -> None:
        """Take the end of the stream; calling it twice is fine."""
        if self._masking is not None:
            self._keep(self._masking.finish())
        elif self._unmasked:
            self._keep(self._masker.data(b"".join(self._unmasked)))
            self._unmasked = []

    @property
    def data(self) -> bytes:
        """Return all masked bytes of a stream that is whole, and else those of its head."""
        return self._head

    def excerpt(self, *, head_bytes: int, tail_bytes: int) -> Excerpt:
        """Return head and tail of the masked stream; at most what the limits keep of each."""
        if self.is_whole:
            return excerpt(self._head, head_bytes=head_bytes, tail_bytes=tail_bytes)
        tail = bytes(self._tail)
        end = head_end(self._head, min(head_bytes, self._limits.head_bytes))
        start = tail_start(tail, min(tail_bytes, self._limits.tail_bytes))
        omitted = self.masked_bytes - end - (len(tail) - start)
        return Excerpt(head=self._head[:end], tail=tail[start:], omitted_bytes=omitted)

    def kept(self) -> Excerpt:
        """Return all that is kept."""
        if self.is_whole:
            return Excerpt(head=self._head)
        limits = self._limits
        return self.excerpt(head_bytes=limits.head_bytes, tail_bytes=limits.tail_bytes)

    def _keep(self, data: bytes) -> None:
        self.masked_bytes += len(data)
        if self.is_whole:
            self._head = self._head + data if self._head else data
            if self.masked_bytes <= self._limits.whole_bytes:
                return
            self.is_whole = False
            data = self._head
            self._head = data[: self._limits.head_bytes + _LONGEST_CHARACTER]
        self._spill(data)
        self._keep_tail(data)

    def _keep_tail(self, data: bytes) -> None:
        # A cut between characters may have to go a little further than the limit.
        size = self._limits.tail_bytes + _LONGEST_CHARACTER
        if len(data) >= size:
            self._tail[:] = data[-size:]
            return
        self._tail += data
        if len(self._tail) > 2 * size:
            del self._tail[:-size]
