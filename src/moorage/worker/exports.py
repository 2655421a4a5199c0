"""Immutable snapshots of published files: taken once, read at random, given up by token.

A snapshot is a file without a name: nobody can open or change it from outside, and nothing is left
when the worker dies. How many there are, how large they are together and how long an unread one
lives are bounded.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from anyio import from_thread, to_thread

from moorage.errors import InvalidArguments, Refused, ToolFailed
from moorage.protocol.exports import (
    MAX_EXPORT_BYTES,
    ExportClosed,
    ExportCloseRequest,
    ExportReadReply,
    ExportReadRequest,
)
from moorage.worker.nameless import open_nameless


class ExportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the snapshots of one worker."""

    max_bytes: int = MAX_EXPORT_BYTES
    max_total_bytes: int = 1024 * 1024 * 1024
    # Each holds one descriptor open.
    max_count: int = 64
    # A host reads a snapshot at once; one that nobody touched for so long was forgotten.
    idle_seconds: float = 900.0
    # A reply carries base64 in a frame of at most 16 MiB; small pieces keep other replies moving.
    chunk_bytes: int = 256 * 1024
    copy_bytes: int = 1024 * 1024


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as the host knows it."""

    token: str
    name: str
    size: int


class _Snapshot(msgspec.Struct):
    """The descriptor of a snapshot's file, and when it was last used."""

    fd: int
    size: int
    used_at: float


class Exports:
    """The snapshots of one worker, by token."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: ExportLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the folder (on whose disk snapshots lie; made when first needed) and the bounds."""
        self._folder = folder
        self._limits = limits or ExportLimits()
        self._clock = clock
        self._snapshots: dict[str, _Snapshot] = {}
        self._reserved: dict[str, int] = {}
        self._is_closed = False

    async def publish(self, fd: int, name: str) -> Export:
        """Copy the regular file that ``fd`` reads; the caller keeps ``fd``.

        Raises:
            Refused: it is no regular file, is too large, or the quotas are used up.
            ToolFailed: it changed while it was copied, or the disk could not take the copy.
        """
        before = os.fstat(fd)
        self._check(before, name)
        token = os.urandom(32).hex()
        self._reserve(token, before.st_size)
        try:
            copy = await to_thread.run_sync(self._copy, fd, before, name)
        finally:
            del self._reserved[token]
        if self._is_closed:
            os.close(copy)
            raise Refused("the worker is ending.", reason="closing")
        self._snapshots[token] = _Snapshot(copy, before.st_size, self._clock())
        return Export(token=token, name=name, size=before.st_size)

    async def read(self, request: ExportReadRequest) -> ExportReadReply:
        """Return the piece of a snapshot that begins at an offset.

        Raises:
            InvalidArguments: the token is unknown, or the offset lies outside the snapshot.
        """
        snapshot = self._find(request.token)
        if not 0 <= request.offset <= snapshot.size:
            raise InvalidArguments(
                f"offset {request.offset} lies outside the export of {snapshot.size} bytes."
            )
        snapshot.used_at = self._clock()
        length = min(self._limits.chunk_bytes, snapshot.size - request.offset)
        # A close meanwhile must not let the number name another file.
        fd = os.dup(snapshot.fd)
        try:
            data = await to_thread.run_sync(_read_whole, fd, length, request.offset)
        finally:
            os.close(fd)
        return ExportReadReply(data=data, eof=request.offset + length == snapshot.size)

    async def close(self, request: ExportCloseRequest) -> ExportClosed:
        """Give a snapshot up.

        Raises:
            InvalidArguments: the token is unknown.
        """
        os.close(self._find(request.token).fd)
        del self._snapshots[request.token]
        return ExportClosed()

    def close_all(self) -> None:
        """Give every snapshot up; none is taken any more."""
        self._is_closed = True
        while self._snapshots:
            _, snapshot = self._snapshots.popitem()
            os.close(snapshot.fd)

    def _check(self, status: os.stat_result, name: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{name} is no regular file.", reason="not_a_regular_file")
        if status.st_size > self._limits.max_bytes:
            raise _too_large(name, status.st_size, self._limits.max_bytes)

    def _reserve(self, token: str, size: int) -> None:
        """Set room aside before the copy begins, so that parallel copies keep to the quotas."""
        self._expire()
        count = len(self._snapshots) + len(self._reserved)
        total = sum(snapshot.size for snapshot in self._snapshots.values())
        total += sum(self._reserved.values())
        limits = self._limits
        if count >= limits.max_count or total + size > limits.max_total_bytes:
            raise Refused(
                f"{count} exports with {total} bytes are still open; at most {limits.max_count} "
                f"with {limits.max_total_bytes} bytes may be.",
                reason="export_quota",
                hint="Close some of them, or wait until the unused ones expire.",
            )
        self._reserved[token] = size

    def _expire(self) -> None:
        oldest = self._clock() - self._limits.idle_seconds
        forgotten = [token for token, kept in self._snapshots.items() if kept.used_at < oldest]
        for token in forgotten:
            os.close(self._snapshots.pop(token).fd)

    def _find(self, token: str) -> _Snapshot:
        self._expire()
        snapshot = self._snapshots.get(token)
        if snapshot is None:
            raise InvalidArguments(
                "no export has this token.", hint="It was closed, or expired unused; publish again."
            )
        return snapshot

    def _copy(self, fd: int, before: os.stat_result, name: str) -> int:
        """Return the descriptor of a copy; runs in a thread."""
        try:
            copy = open_nameless(self._folder)
            try:
                copied = self._transfer(fd, copy, before.st_size + 1)
                _check_unchanged(before, os.fstat(fd), copied, name)
            except BaseException:
                os.close(copy)
                raise
        except OSError as error:
            raise ToolFailed(
                f"{name} could not be copied: {error.strerror}.",
                hint="Free some space." if error.errno in (errno.ENOSPC, errno.EDQUOT) else "",
            ) from error
        return copy

    def _transfer(self, source: int, target: int, at_most: int) -> int:
        copied = 0
        while copied < at_most:
            from_thread.check_cancelled()
            data = os.pread(source, min(self._limits.copy_bytes, at_most - copied), copied)
            if not data:
                break
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
            copied += len(data)
        return copied


def _too_large(name: str, size: int, limit: int) -> Refused:
    return Refused(
        f"{name} has {size} bytes; an artifact may have at most {limit}.",
        reason="artifact_too_large",
        hint="Pack or split it.",
    )


def _check_unchanged(before: os.stat_result, after: os.stat_result, copied: int, name: str) -> None:
    """Return when the copy is the file at one moment.

    Raises:
        ToolFailed: somebody wrote to it meanwhile.
    """
    moments = [
        (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        for status in (before, after)
    ]
    if moments[0] != moments[1] or copied != before.st_size:
        raise ToolFailed(
            f"{name} changed while it was copied; nothing was published.",
            hint="Wait until it is complete, then publish it again.",
        )


def _read_whole(fd: int, length: int, offset: int) -> bytes:
    pieces: list[bytes] = []
    while length:
        piece = os.pread(fd, length, offset)
        if not piece:
            break
        pieces.append(piece)
        length -= len(piece)
        offset += len(piece)
    return b"".join(pieces)
