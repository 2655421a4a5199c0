"""Reading and writing one file descriptor without blocking: pipes, terminals, files."""

from __future__ import annotations

import os

import anyio
from anyio.lowlevel import checkpoint

# A larger buffer costs an allocation on every read, so it is taken while it is filled.
_READ_BYTES = 64 * 1024
_MOST_READ_BYTES = 1024 * 1024


class _Descriptor:
    """One owned descriptor.

    How it blocked before is restored at the end, because others may share the open file.
    """

    def __init__(self, fd: int) -> None:
        """Take the descriptor over."""
        self._fd = fd
        self._was_blocking = os.get_blocking(fd)
        os.set_blocking(fd, False)

    def close(self) -> None:
        """Close the descriptor; whoever waits for it is woken with ``ClosedResourceError``."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            anyio.notify_closing(fd)
            if self._was_blocking:
                os.set_blocking(fd, True)
            os.close(fd)

    def _open_fd(self) -> int:
        if self._fd < 0:
            raise anyio.ClosedResourceError
        return self._fd


class FdReader(_Descriptor):
    """Reads a descriptor."""

    _size = _READ_BYTES

    async def receive(self) -> bytes:
        """Return the next bytes; ``b""`` at the end."""
        while True:
            try:
                await anyio.wait_readable(self._open_fd())
            except PermissionError:
                # A regular file or /dev/null: always readable, and the selector refuses it.
                await checkpoint()
            try:
                data = os.read(self._open_fd(), self._size)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            self._size = _MOST_READ_BYTES if len(data) >= _READ_BYTES else _READ_BYTES
            return data


class FdWriter(_Descriptor):
    """Writes a descriptor; ``is_torn`` after a send that stopped in the middle."""

    def __init__(self, fd: int) -> None:
        """Take the descriptor over."""
        super().__init__(fd)
        self.is_torn = False

    async def send(self, data: bytes) -> None:
        """Write everything; tried at once, and waited for only when the other side is slow."""
        written = self._write(data)
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        self.is_torn = written > 0
        while rest:
            try:
                await anyio.wait_writable(self._open_fd())
            except PermissionError:
                await checkpoint()
            written = self._write(rest)
            self.is_torn = self.is_torn or written > 0
            rest = rest[written:]
        self.is_torn = False

    def _write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._open_fd(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise anyio.BrokenResourceError from error
