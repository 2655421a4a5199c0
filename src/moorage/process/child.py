"""A running child: its two output pipes, its end, and its whole tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moorage.process.spec import ExitStatus

READ_BYTES = 256 * 1024


class PipeReader:
    """The reading end of one output pipe."""

    fd: int

    async def read(self, max_bytes: int = READ_BYTES) -> bytes:
        """Return the next bytes, at least one; empty at the end."""
        raise NotImplementedError


class Child:
    """A program that a supervisor started, and everything that descends from it."""

    pid: int
    stdout: PipeReader
    stderr: PipeReader

    async def wait(self) -> ExitStatus:
        """Return how the program itself ended, whoever still holds its pipes.

        Raises:
            EnvironmentDied: its launcher was lost, and everything it had started was ended.
        """
        raise NotImplementedError

    async def end(self, grace_seconds: float) -> None:
        """End the program and all its descendants: SIGTERM, grace, SIGKILL.

        Raises:
            ShutdownIncomplete: something survived SIGKILL.
        """
        raise NotImplementedError

    async def count_left(self) -> int:
        """Return how many descendants are alive, once the program itself has ended."""
        raise NotImplementedError
