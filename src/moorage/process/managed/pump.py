"""Moves the output of one process into its log, as fast as it comes and without hurry else."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.process.child import PipeReader
    from moorage.process.kept.log import OutputLog
    from moorage.process.managed.limits import ManagedLimits

_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


class Pump:
    """One source of output and the log that it goes to."""

    def __init__(
        self,
        source: PipeReader,
        log: OutputLog,
        grown: Callable[[], None],
        limits: ManagedLimits,
    ) -> None:
        """Move nothing yet; ``grown`` is called whenever the log has."""
        self._source = source
        self._log = log
        self._grown = grown
        self._limits = limits
        self._take = log.take_terminal if os.isatty(source.fd) else log.take
        self._is_large = False
        self.ended = anyio.Event()

    async def run(self) -> None:
        """Move output until the source ends."""
        try:
            while await self._turn():
                pass
        except OSError as error:
            self._log.problem = self._log.problem or str(error)
        finally:
            self.ended.set()

    async def _turn(self) -> bool:
        """Move what there is, for one turn; ``False`` at the end."""
        limits = self._limits
        stop_at = time.perf_counter() + limits.turn_seconds
        moved = number = 0
        try:
            while moved < limits.live_log_bytes and number < limits.full_pipe_bytes:
                number = self._move()
                if number == 0:
                    return False
                moved += number
                if time.perf_counter() > stop_at:
                    break
        except BlockingIOError:
            if moved:
                self._grown()
            await anyio.wait_readable(self._source.fd)
            return True
        self._grown()
        if number >= limits.full_pipe_bytes:
            # It prints plenty. An event loop cannot wait for less than a millisecond, and in that
            # time a pipe is full and the program waits.
            await anyio.to_thread.run_sync(self._move_flood)
            self._grown()
        await checkpoint()
        return not self._source.is_at_end

    def _move_flood(self) -> None:
        """Move plenty of output in a thread, in large pieces, until it ebbs or others are due."""
        limits = self._limits
        stop_at = time.perf_counter() + limits.flood_seconds
        never = Event()
        with suppress(BlockingIOError):
            while self._move() >= limits.full_pipe_bytes and time.perf_counter() < stop_at:
                never.wait(limits.gather_seconds)

    def _move(self) -> int:
        number = self._take_or_end(self._last_words)
        if number == 0:
            self._source.is_at_end = True
        elif number >= self._limits.full_pipe_bytes and not self._is_large:
            self._is_large = True
            if _SET_PIPE_SIZE is not None:
                with suppress(OSError):  # No pipe, or the user's share of pipe memory is used up.
                    fcntl.fcntl(self._source.fd, _SET_PIPE_SIZE, self._limits.take_bytes)
        return number

    def _take_or_end(self, at_end: Callable[[], int]) -> int:
        try:
            return self._take(self._source.fd, self._limits.take_bytes)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return at_end()  # So a terminal ends when nobody holds its other side any more.

    def _last_words(self) -> int:
        """Take what a program printed just before the terminal's other side was closed.

        The kernel looks for output first and for the end then; both may come in between.
        """
        return self._take_or_end(lambda: 0)

    def take_waiting(self) -> None:
        """Move what lies there now, and wait for nothing; there may be more for ever."""
        taken = 0
        with suppress(BlockingIOError):
            while not self._source.is_at_end and taken < self._limits.take_bytes:
                taken += self._move()
        if taken:
            self._grown()
