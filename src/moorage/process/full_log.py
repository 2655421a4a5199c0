"""The full log of one command: written in one pass, hashed as it is written, private to its owner.

It holds a header, the section of stdout, the section of stderr and a closing summary, in this
order. Both streams arrive at the same time, so stderr waits in an unnamed file until stdout is
complete. A log that cannot be written is given up with a reason; the command goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint

from moorage.confine.private_folders import make_private
from moorage.process.capture import StreamCapture

_COPY_BYTES = 256 * 1024
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 100


class LogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a log may grow."""

    stream_bytes: int = 1024 * 1024 * 1024
    """Of each stream: a program that runs away prints this in seconds, and the disk is not ours."""


class SavedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log on disk; ``sections`` are byte offsets into it, ``omitted_bytes`` what it lacks."""

    path: str
    size: int
    sha256: str
    sections: dict[str, int]
    omitted_bytes: int = 0


class FullLog:
    """A log that comes to be only when it is needed."""

    def __init__(
        self,
        folder: str,
        name: Callable[[], str],
        header: Callable[[], bytes],
        limits: LogLimits,
    ) -> None:
        """Create nothing yet; ``name`` and ``header`` are asked when the file is made."""
        self.error = ""
        """Why there is no log, when there should be one."""

        self._folder = folder
        self._name = name
        self._header = header
        self._limits = limits
        self._hash: Any = None
        self._path = ""
        self._fd = self._spool = -1
        self._size = self._stdout_start = 0
        self._stdout_size = self._stderr_size = 0
        self._omitted = 0

    @property
    def is_begun(self) -> bool:
        """Return whether something was spilt, so that memory alone does not hold it any more."""
        return self._fd >= 0 or self._spool >= 0 or bool(self.error)

    def spill_stdout(self, data: bytes) -> None:
        """Write the next bytes of stdout."""
        kept = self._within(data, self._stdout_size)
        self._stdout_size += len(kept)
        if self.error:
            return
        try:
            self._open()
            self._append(kept)
        except OSError as error:
            self._give_up(error)

    def spill_stderr(self, data: bytes) -> None:
        """Keep the next bytes of stderr, which wait for the end of stdout."""
        kept = self._within(data, self._stderr_size)
        self._stderr_size += len(kept)
        if self.error:
            return
        try:
            if self._spool < 0:
                self._spool = _unnamed_file(self._folder)
            _write_all(self._spool, kept)
        except OSError as error:
            self._give_up(error)

    async def close(
        self, stdout: StreamCapture, stderr: StreamCapture, summary: str
    ) -> SavedLog | None:
        """Complete the log and return where it is; ``None`` when ``error`` says why not."""
        if self.error:
            return None
        try:
            return await self._complete(stdout, stderr, summary)
        except OSError as error:
            self._give_up(error)
            return None

    def discard(self) -> None:
        """Leave nothing behind."""
        self._release()
        if self._path:
            with suppress(OSError):
                os.unlink(self._path)

    async def _complete(
        self, stdout: StreamCapture, stderr: StreamCapture, summary: str
    ) -> SavedLog:
        self._open()
        if stdout.is_whole:
            self._append(stdout.data)
        sections = {"stdout_start": self._stdout_start, "stdout_end": self._size}
        self._append(b"\n--- stderr ---\n")
        sections["stderr_start"] = self._size
        if stderr.is_whole:
            self._append(stderr.data)
        else:
            await self._append_spool()
        sections["stderr_end"] = self._size
        missing = f"not kept: {self._omitted} bytes\n" if self._omitted else ""
        self._append(f"\n--- end ---\n{summary}{missing}".encode())
        self._release()
        return SavedLog(
            path=self._path,
            size=self._size,
            sha256=self._hash.hexdigest(),
            sections=sections,
            omitted_bytes=self._omitted,
        )

    def _give_up(self, error: OSError) -> None:
        self.error = f"the full log could not be written: {error.strerror}"
        self.discard()

    def _within(self, data: bytes, written: int) -> bytes:
        room = self._limits.stream_bytes - written
        if len(data) <= room:
            return data
        self._omitted += len(data) - room
        return data[:room]

    def _open(self) -> None:
        if self._fd >= 0:
            return
        make_private(self._folder)
        self._hash = sha256()
        self._fd, self._path = _new_file(self._folder, self._name())
        self._append(self._header() + b"--- stdout ---\n")
        self._stdout_start = self._size

    def _append(self, data: bytes) -> None:
        self._hash.update(data)
        _write_all(self._fd, data)
        self._size += len(data)

    async def _append_spool(self) -> None:
        at = 0
        while data := os.pread(self._spool, _COPY_BYTES, at):
            self._append(data)
            at += len(data)
            await checkpoint()

    def _release(self) -> None:
        for fd in (self._fd, self._spool):
            if fd >= 0:
                os.close(fd)
        self._fd = self._spool = -1


def _new_file(folder: str, name: str) -> tuple[int, str]:
    """Make a file that nobody else has; equal commands of one moment get a number."""
    for attempt in range(_ATTEMPTS):
        path = f"{folder}/{name}{f'-{attempt}' if attempt else ''}.log"
        with suppress(FileExistsError):
            return os.open(path, _NEW_FILE, 0o600), path
    raise FileExistsError(17, "every name for it is taken", folder)


def _unnamed_file(folder: str) -> int:
    make_private(folder)
    unnamed = getattr(os, "O_TMPFILE", 0)
    if unnamed:
        with suppress(OSError):
            return os.open(folder, os.O_RDWR | os.O_CLOEXEC | unnamed, 0o600)
    path = f"{folder}/.{os.urandom(8).hex()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return fd


def _write_all(fd: int, data: bytes) -> None:
    while data:
        written = os.write(fd, data)
        data = data[written:] if written < len(data) else b""
