"""A running child: its two output pipes or its terminal, its end, and its whole tree."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from moorage.errors import EnvironmentDied, ProvisionError, ShutdownIncomplete
from moorage.process.spec import ExitStatus

if TYPE_CHECKING:
    from moorage.process.launching import Call, LauncherEnd

READ_BYTES = 256 * 1024
"""Four times what a pipe holds by default, so that one read empties it."""

LARGEST_PIPE_BYTES = 1024 * 1024
"""What a pipe holds at most, and so what is taken at a time of what waits in one.

More may come as fast as it is taken, and for ever.
"""

LARGEST_SIZE = 65_535


class NoTerminal(ProvisionError):
    """The system gave no terminal; nothing ran."""


def open_terminal(size: tuple[int, int]) -> tuple[int, int]:
    """Return our end and a program's end of a new terminal of so many rows and columns.

    Raises:
        NoTerminal: the system has none left, or none at all.
    """
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise NoTerminal(f"There is no terminal to be had: {error.strerror}.") from error
    try:
        set_size(ours, size)
        os.ttyname(theirs)
    except OSError as error:
        os.close(ours)
        os.close(theirs)
        raise NoTerminal(f"A terminal cannot be used: {error.strerror}.") from error
    return ours, theirs


def set_size(fd: int, size: tuple[int, int]) -> None:
    """Set rows and columns of the terminal behind a descriptor."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


class PipeReader:
    """The reading end of one output pipe."""

    def __init__(self, fd: int) -> None:
        """Take over the descriptor."""
        os.set_blocking(fd, False)
        self.fd = fd
        self.is_at_end = False
        self._is_awaited = False

    async def read(self, max_bytes: int = READ_BYTES) -> bytes:
        """Return the next bytes, at least one; empty at the end."""
        while True:
            try:
                return self.take(max_bytes)
            except BlockingIOError:
                await self._await_more()

    def take(self, max_bytes: int = READ_BYTES) -> bytes:
        """Return what lies there now; empty at the end.

        Raises:
            BlockingIOError: nothing does.
        """
        try:
            data = os.read(self.fd, max_bytes)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # So a terminal ends when nobody holds its other side any more.
        self.is_at_end = not data
        return data

    async def _await_more(self) -> None:
        self._is_awaited = True
        try:
            await anyio.wait_readable(self.fd)
        finally:
            self._is_awaited = False

    def drop_waiting(self, max_bytes: int = READ_BYTES) -> bool:
        """Drop what is waiting; return whether the end was reached."""
        dropped = 0
        try:
            while not self.is_at_end and dropped < LARGEST_PIPE_BYTES:
                dropped += len(self.take(max_bytes))
        except BlockingIOError:
            return False
        return self.is_at_end

    def close(self) -> None:
        """Close this end; closing twice is fine, and whoever still reads is told."""
        if self.fd >= 0:
            if self._is_awaited:
                anyio.notify_closing(self.fd)
            os.close(self.fd)
            self.fd = -1


class Drains:
    """Goes on reading the pipes of descendants that would die of closed ones."""

    def __init__(self, read_bytes: int) -> None:
        """Read nothing yet."""
        self._read_bytes = read_bytes
        self._scopes: set[anyio.CancelScope] = set()

    async def drain(self, reader: PipeReader) -> None:
        """Read and drop until the end, then close the pipe."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                while await reader.read(self._read_bytes):
                    # Several writers keep a pipe full, and others want their turn.
                    await checkpoint()
            finally:
                self._scopes.discard(scope)
                reader.close()

    def close(self) -> None:
        """Read no more."""
        for scope in list(self._scopes):
            scope.cancel()


class Child:
    """A program that a supervisor started, and everything that descends from it."""

    def __init__(
        self, launcher: LauncherEnd, call: Call, stdout: PipeReader, stderr: PipeReader
    ) -> None:
        """Hold a program that was started."""
        self.stdout = stdout
        self.stderr = stderr
        self._launcher = launcher
        self._call = call

    @property
    def pid(self) -> int:
        """Return the program's pid, which also names its process group; 0 before it started."""
        return self._call.pid

    @property
    def is_running(self) -> bool:
        """Return whether the program itself is not known to have ended."""
        return not self._call.exited.is_set()

    async def started(self) -> None:
        """Return when the program runs, or ran.

        Raises:
            InvalidArguments: the arguments are longer than the system takes; nothing ran.
            ProvisionError: the program or its directory cannot be used; nothing ran.
        """
        await self._launcher.started(self._call)

    async def wait(self) -> ExitStatus:
        """Return how the program itself ended, whoever still holds its pipes.

        Raises:
            InvalidArguments: the arguments are longer than the system takes; nothing ran.
            ProvisionError: the program or its directory cannot be used; nothing ran.
            EnvironmentDied: its launcher was lost, and everything it had started was ended.
        """
        if self.is_running:
            await self._launcher.ended(self._call)
        status = self._call.wait_status
        if status is None:
            await self.started()
            self._launcher.check_alive()
            raise AssertionError("a call ends with a status or with its launcher")
        if os.WIFSIGNALED(status):
            return ExitStatus(signal=os.WTERMSIG(status))
        return ExitStatus(exit_code=os.WEXITSTATUS(status))

    async def signal(self, number: int) -> None:
        """Signal the program and all its descendants.

        Raises:
            EnvironmentDied: its launcher was lost, and everything it had started was ended.
        """
        await self._launcher.signal(self._call, number)

    async def end(self, grace_seconds: float) -> None:
        """End the program and all its descendants: SIGTERM, grace, SIGKILL.

        Raises:
            ShutdownIncomplete: something survived SIGKILL.
        """
        if not self.is_running and not self._call.has_orphans:
            return
        try:
            left = await self._launcher.end(self._call, grace_seconds)
        except EnvironmentDied:
            return  # A lost launcher is only told of once everything it had started is gone.
        if left:
            raise ShutdownIncomplete(f"{left} processes of pid {self.pid} survived SIGKILL.")

    async def count_left(self) -> int:
        """Return how many descendants are alive, once the program itself has ended."""
        if not self.is_running and not self._call.has_orphans:
            return 0
        try:
            return await self._launcher.count_left(self._call)
        except EnvironmentDied:
            return 0
