"""Bytes of any size, in frames: files to read, files to write, and the input of a command.

A written file changes with its last frame, as a whole. What arrives before that has no name, so an
upload that is given up, and even a worker that is killed, leaves nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from moorage.errors import InvalidArguments, Refused, ToolFailed
from moorage.policy.permission import PermissionMode
from moorage.protocol.files import (
    FileReadReply,
    FileReadRequest,
    FileWriteReply,
    FileWriteRequest,
    InputWriteReply,
    InputWriteRequest,
)
from moorage.tools.misfortunes import MISFORTUNES, describe
from moorage.worker.nameless import open_nameless
from moorage.worker.readings import ReadingLimits, Readings
from moorage.workspace.opening.location import Target
from moorage.workspace.root import WorkspaceRoot
from moorage.workspace.staged import StagedFile

MIB = 1024 * 1024


class UploadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the uploads of one worker."""

    # Each holds one or two descriptors open.
    max_uploads: int = 32
    max_total_bytes: int = 4096 * MIB
    # A host sends frame after frame; an upload that rested so long was given up.
    idle_seconds: float = 300.0


class _Incoming:
    """Bytes on their way into a file of the workspace; dropped unless they are committed."""

    def __init__(self, request: FileWriteRequest, target: Target) -> None:
        self.owner = (request.path, request.actor)
        self.written = 0
        self.used_at = 0.0
        self.location = target.location
        self._target = target
        try:
            # One frame is written at once, with nothing to lose in between.
            self._staged = StagedFile(target, anonymous=not request.eof)
        except BaseException:
            os.close(target.folder_fd)
            raise

    def append(self, data: bytes) -> None:
        self._staged.write(data)
        self.written += len(data)

    def commit(self) -> None:
        self._staged.commit(replace_any=True)

    def close(self) -> None:
        self._staged.close()
        os.close(self._target.folder_fd)


class _Input:
    """Bytes on their way to the standard input of a command."""

    owner = ("", "")

    def __init__(self, folder: Path) -> None:
        self.written = 0
        self.used_at = 0.0
        self.is_complete = False
        self.fd = open_nameless(folder)

    def append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]
        self.written += len(data)

    def close(self) -> None:
        os.close(self.fd)


class Uploads:
    """The transfers of one worker, by token."""

    def __init__(
        self,
        root: WorkspaceRoot,
        folder: Path,
        *,
        limits: UploadLimits | None = None,
        reading_limits: ReadingLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the workspace, the folder on whose disk command input lies, and the bounds."""
        self._root = root
        self._folder = folder
        self._limits = limits or UploadLimits()
        self._clock = clock
        self._readings = Readings(root, limits=reading_limits, clock=clock)
        self._files: dict[str, _Incoming] = {}
        self._inputs: dict[str, _Input] = {}

    async def file_read(self, request: FileReadRequest, mode: PermissionMode) -> FileReadReply:
        """Return one piece of a file.

        Raises:
            Refused: the path leads outside, or the file is protected.
            ToolFailed: the file cannot be read, or was written to between two pieces.
        """
        with _telling(request.path):
            return self._readings.read(request, mode)

    async def file_write(self, request: FileWriteRequest, mode: PermissionMode) -> FileWriteReply:
        """Take one piece of a file; the last one replaces the file.

        Raises:
            Refused: the path leads outside, the file is protected, the mode only reads, or the
                quotas are used up.
            InvalidArguments: the upload is unknown, or the piece is not the next one.
            ToolFailed: the file cannot be written; it is as it was.
        """
        with _telling(request.path):
            token, incoming = self._take_file(request, mode)
            is_kept = False
            try:
                self._append(incoming, request.offset, request.data)
                if request.eof:
                    await self._root.turns.wait(incoming.location.absolute)
                    incoming.commit()
                else:
                    self._files[token] = incoming
                    is_kept = True
            finally:
                if not is_kept:
                    incoming.close()
        return FileWriteReply(upload=token, written=incoming.written)

    async def input_write(self, request: InputWriteRequest) -> InputWriteReply:
        """Take one piece of the standard input of a command.

        Raises:
            Refused: the quotas are used up.
            InvalidArguments: the upload is unknown, or the piece is not the next one.
            ToolFailed: the disk could not take it.
        """
        with _telling("the input"):
            token, incoming = self._take_input(request)
            try:
                self._append(incoming, request.offset, request.data)
            except BaseException:
                incoming.close()
                raise
        incoming.is_complete = request.eof
        self._inputs[token] = incoming
        return InputWriteReply(upload=token, written=incoming.written)

    def take_input(self, token: str) -> int:
        """Return the complete input of a command, from its start; the caller closes it.

        Raises:
            InvalidArguments: there is none, or it is not complete.
        """
        incoming = self._inputs.pop(token, None)
        if incoming is None:
            raise _unknown()
        if not incoming.is_complete:
            incoming.close()
            raise InvalidArguments("the input of this command was not sent to its end.")
        os.lseek(incoming.fd, 0, os.SEEK_SET)
        return incoming.fd

    def close(self) -> None:
        """Drop every upload and let go of every file."""
        self._readings.close()
        for uploads in (self._files, self._inputs):
            while uploads:
                uploads.popitem()[1].close()

    def _take_file(self, request: FileWriteRequest, mode: PermissionMode) -> tuple[str, _Incoming]:
        """Return the upload of a piece, out of the table until the piece is in."""
        if request.upload:
            incoming = self._files.pop(request.upload, None)
            if incoming is None:
                raise _unknown()
            if incoming.owner != (request.path, request.actor):
                incoming.close()
                raise InvalidArguments("the upload belongs to another file or actor.")
            return request.upload, incoming
        self._check_count()
        return _new_token(), _Incoming(request, self._root.open_target(request.path, mode))

    def _take_input(self, request: InputWriteRequest) -> tuple[str, _Input]:
        if request.upload:
            incoming = self._inputs.get(request.upload)
            if incoming is None or incoming.is_complete:
                raise _unknown()
            del self._inputs[request.upload]
            return request.upload, incoming
        self._check_count()
        return _new_token(), _Input(self._folder)

    def _append(self, incoming: _Incoming | _Input, offset: int, data: bytes) -> None:
        if offset != incoming.written:
            raise InvalidArguments(
                f"a piece begins at {offset}, and {incoming.written} bytes have arrived; "
                "the upload was dropped."
            )
        kept: list[_Incoming | _Input] = [*self._files.values(), *self._inputs.values()]
        total = sum(upload.written for upload in kept) + incoming.written + len(data)
        if total > self._limits.max_total_bytes:
            raise Refused(
                f"uploads of {total} bytes are under way; at most "
                f"{self._limits.max_total_bytes} may be.",
                reason="upload_quota",
                hint="Send less at once.",
            )
        incoming.append(data)
        incoming.used_at = self._clock()

    def _check_count(self) -> None:
        oldest = self._clock() - self._limits.idle_seconds
        _drop_resting(self._files, oldest)
        _drop_resting(self._inputs, oldest)
        count = len(self._files) + len(self._inputs)
        if count >= self._limits.max_uploads:
            raise Refused(
                f"{count} uploads are under way; at most {self._limits.max_uploads} may be.",
                reason="upload_quota",
                hint="Finish one of them first.",
            )


def _drop_resting(uploads: dict[str, _Incoming] | dict[str, _Input], oldest: float) -> None:
    for token in [token for token, kept in uploads.items() if kept.used_at < oldest]:
        uploads.pop(token).close()


@contextmanager
def _telling(path: str) -> Iterator[None]:
    """Turn ordinary misfortune with a file into one sentence on the wire."""
    try:
        yield
    except MISFORTUNES as error:
        raise ToolFailed(describe(error, path)[1]) from error


def _new_token() -> str:
    return os.urandom(32).hex()


def _unknown() -> InvalidArguments:
    return InvalidArguments(
        "no upload has this token.", hint="It was finished, dropped or expired; send it again."
    )
