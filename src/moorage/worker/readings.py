"""Files read piece by piece: held open from the first piece to the last."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from moorage.policy.permission import PermissionMode
from moorage.protocol.files import FileReadReply, FileReadRequest
from moorage.workspace.files import ChangedMeanwhile
from moorage.workspace.opening.location import protected
from moorage.workspace.root import WorkspaceRoot


class ReadingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the files that are held open between two pieces."""

    max_readings: int = 32
    # A reader asks for piece after piece; one that rested so long has gone.
    idle_seconds: float = 300.0


class _Reading(msgspec.Struct):
    """An open file, and what it looked like at the first piece."""

    fd: int
    size: int
    modified_ns: int
    used_at: float


Key = tuple[str, str, PermissionMode]


class Readings:
    """The files that are being read, by path, actor and mode."""

    def __init__(
        self,
        root: WorkspaceRoot,
        *,
        limits: ReadingLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the workspace and the bounds."""
        self._root = root
        self._limits = limits or ReadingLimits()
        self._clock = clock
        self._open: dict[Key, _Reading] = {}

    def read(self, request: FileReadRequest, mode: PermissionMode) -> FileReadReply:
        """Return one piece.

        Pieces that follow one another come from the file that the first one found, even when
        another file takes its name meanwhile.

        Raises:
            Refused: the path leads outside, or the file is protected.
            WrongFileType: it is no regular file.
            ChangedMeanwhile: it was written to between two pieces.
            OSError: it cannot be read.
        """
        key = (request.path, request.actor, mode)
        reading = self._open.get(key)
        if reading is None or request.offset == 0:
            reading = self._begin(key)
        reading.used_at = self._clock()
        data = _read(reading.fd, request.offset, request.max_bytes)
        status = os.fstat(reading.fd)
        if (status.st_size, status.st_mtime_ns) != (reading.size, reading.modified_ns):
            self._end(key)
            raise ChangedMeanwhile(request.path)
        eof = request.offset + len(data) >= reading.size
        if eof:
            self._end(key)
        return FileReadReply(data=data, eof=eof, size=reading.size)

    def close(self) -> None:
        """Let go of every file."""
        for key in list(self._open):
            self._end(key)

    def _begin(self, key: Key) -> _Reading:
        path, _, mode = key
        self._end(key)
        self._expire()
        fd, location = self._root.open_read(path, mode)
        if location.is_protected:  # bytes cannot be masked and stay what they are
            os.close(fd)
            raise protected(location.display, "read as bytes")
        status = os.fstat(fd)
        reading = _Reading(fd, status.st_size, status.st_mtime_ns, self._clock())
        self._open[key] = reading
        return reading

    def _end(self, key: Key) -> None:
        reading = self._open.pop(key, None)
        if reading is not None:
            os.close(reading.fd)

    def _expire(self) -> None:
        """Let go of what rested too long, and of the longest rested when there are too many."""
        oldest = self._clock() - self._limits.idle_seconds
        by_age = sorted(self._open, key=lambda key: self._open[key].used_at)
        surplus = len(by_age) + 1 - self._limits.max_readings
        for place, key in enumerate(by_age):
            if place < surplus or self._open[key].used_at < oldest:
                self._end(key)


def _read(fd: int, offset: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count and (part := os.pread(fd, count, offset)):
        parts.append(part)
        offset += len(part)
        count -= len(part)
    return b"".join(parts)
