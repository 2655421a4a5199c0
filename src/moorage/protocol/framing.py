"""Bytes to lines: incremental, bounded, in linear time whatever the split."""

from __future__ import annotations

from moorage.errors import RemoteProtocolViolation

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest frame, its newline included, in both directions."""


class FrameReader:
    """Cuts a stream into frames without their newline.

    An over-long frame sets ``failure``; frames before it are still returned, nothing after it is.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Start with nothing read."""
        self.failure: RemoteProtocolViolation | None = None
        self._max_frame_bytes = max_frame_bytes
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the frames that they complete."""
        if self.failure is not None:
            return []
        *lines, rest = data.split(b"\n")
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial = bytearray()
        for index, line in enumerate(lines):
            if len(line) >= self._max_frame_bytes:
                self._fail()
                return lines[:index]
        self._partial += rest
        if len(self._partial) >= self._max_frame_bytes:
            self._fail()
        return lines

    def finish(self) -> list[bytes]:
        """Return the last frame, when the stream ended without a newline after it."""
        rest, self._partial = bytes(self._partial), bytearray()
        return [rest] if rest else []

    def _fail(self) -> None:
        self._partial = bytearray()
        self.failure = RemoteProtocolViolation(
            f"the other side sent a frame of more than {self._max_frame_bytes} bytes."
        )
