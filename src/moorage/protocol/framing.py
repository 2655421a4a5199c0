"""Bytes to lines: incremental, bounded, in linear time whatever the split."""

from __future__ import annotations

from itertools import takewhile

from moorage.errors import RemoteProtocolViolation

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest frame, its newline included, in both directions."""


# Pieces below this size are gathered, so that a peer cannot make millions of them.
_GATHERED_BYTES = 4096


class FrameReader:
    """Cuts a stream into frames without their newline.

    An over-long frame sets ``failure`` for good. Frames that came before it are still returned; a
    call that has none to return raises the failure.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Start with nothing read."""
        self.failure: RemoteProtocolViolation | None = None
        self._max_frame_bytes = max_frame_bytes
        self._pieces: list[bytes | bytearray] = []
        self._piece_bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the frames that they complete.

        Raises:
            RemoteProtocolViolation: a frame is too long, and no complete one came before it.
        """
        if self.failure is not None:
            raise self.failure
        *lines, rest = data.split(b"\n")
        if lines and self._pieces:
            lines[0] = self._take(lines[0])
        self._keep(rest)
        if self._piece_bytes >= self._max_frame_bytes or self._has_over_long(lines):
            return self._fail(lines)
        return lines

    def finish(self) -> list[bytes]:
        """Return the last frame, when the stream ended without a newline after it.

        Raises:
            RemoteProtocolViolation: an earlier frame was too long.
        """
        if self.failure is not None:
            raise self.failure
        rest = self._take(b"")
        return [rest] if rest else []

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of a frame whose end has not come."""
        self._piece_bytes += len(piece)
        if not piece:
            return
        if len(piece) >= _GATHERED_BYTES:
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))

    def _take(self, last: bytes) -> bytes:
        """Return the kept pieces and ``last`` as one, and keep nothing."""
        frame = b"".join((*self._pieces, last))
        self._pieces.clear()
        self._piece_bytes = 0
        return frame

    def _has_over_long(self, lines: list[bytes]) -> bool:
        return any(len(line) >= self._max_frame_bytes for line in lines)

    def _fail(self, lines: list[bytes]) -> list[bytes]:
        self._pieces.clear()
        self.failure = RemoteProtocolViolation(
            f"the other side sent a frame of more than {self._max_frame_bytes} bytes."
        )
        good = list(takewhile(lambda line: len(line) < self._max_frame_bytes, lines))
        if not good:
            raise self.failure
        return good
