"""Bytes to lines: incremental, bounded, in linear time whatever the split."""

from __future__ import annotations

from moorage.errors import RemoteProtocolViolation

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest frame, its newline included, in both directions."""


class FrameReader:
    """Cuts a stream into frames without their newline.

    An over-long frame sets ``failure`` for good. Frames that came before it are still returned; a
    call that has none to return raises the failure.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Start with nothing read."""
        self.failure: RemoteProtocolViolation | None = None
        self._max_frame_bytes = max_frame_bytes
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the frames that they complete.

        Raises:
            RemoteProtocolViolation: a frame is too long, and no complete one came before it.
        """
        if self.failure is not None:
            raise self.failure
        *lines, rest = data.split(b"\n")
        if lines and self._partial:
            self._partial += lines[0]
            lines[0] = bytes(self._partial)
            self._partial = bytearray()
        self._partial += rest
        for index, line in enumerate((*lines, self._partial)):
            if len(line) >= self._max_frame_bytes:
                return self._fail(lines[:index])
        return lines

    def finish(self) -> list[bytes]:
        """Return the last frame, when the stream ended without a newline after it.

        Raises:
            RemoteProtocolViolation: an earlier frame was too long.
        """
        if self.failure is not None:
            raise self.failure
        rest, self._partial = bytes(self._partial), bytearray()
        return [rest] if rest else []

    def _fail(self, good: list[bytes]) -> list[bytes]:
        self._partial = bytearray()
        self.failure = RemoteProtocolViolation(
            f"the other side sent a frame of more than {self._max_frame_bytes} bytes."
        )
        if not good:
            raise self.failure
        return good
