"""Follow the output of a running program into its capture, in turns that leave others theirs."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.lowlevel import cancel_shielded_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.process.capture import StreamCapture
    from moorage.process.child import PipeReader

_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


class FollowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How output is read and taken in."""

    read_bytes: int = 64 * 1024
    """More at a time leaves the processor's cache before it is masked, hashed and written."""

    pipe_bytes: int = 1024 * 1024
    """A pipe that is found full is made this large, so that the program waits less."""

    full_pipe_bytes: int = 64 * 1024
    """What a pipe holds by default."""

    turn_seconds: float = 0.002
    """How long output may be taken in before other tasks have their turn."""

    first_slice_bytes: int = 16 * 1024
    smallest_slice_bytes: int = 2 * 1024
    """What is taken in one turn grows and shrinks with the time that it takes."""


def take_waiting(reader: PipeReader, capture: StreamCapture, limits: FollowLimits) -> None:
    """Take what lies in the pipe of a program that has ended; never waits, never goes on."""
    taken = 0
    with suppress(BlockingIOError):
        while not reader.is_at_end and taken < limits.read_bytes:
            data = os.read(reader.fd, limits.read_bytes)
            reader.is_at_end = not data
            taken += len(data)
            capture.feed(data)


class Follower:
    """Reads one pipe into one capture."""

    def __init__(
        self,
        reader: PipeReader,
        capture: StreamCapture,
        limits: FollowLimits,
        keep: Callable[[bytes], None] | None = None,
    ) -> None:
        """Read nothing yet; ``keep`` gets everything raw, before it is taken in."""
        self.received_bytes = 0
        """How many bytes were read; some of them may not be in the capture yet."""

        self._reader = reader
        self._capture = capture
        self._keep = keep
        self._limits = limits
        self._slice = limits.first_slice_bytes
        self._turn_began = 0.0
        self._owed_bytes = 0
        self._caught_up = anyio.Event()
        self._is_grown = False
        self._is_stopped = False
        self._waiting = anyio.CancelScope()
        self.ended = anyio.Event()

    async def run(self) -> None:
        """Follow until the end of the pipe, or until ``stop``."""
        try:
            # Only the wait for more is given up on cancellation: what was read is always taken.
            with self._waiting:
                while not self._is_stopped:
                    data = await self._reader.read(self._limits.read_bytes)
                    if not data:
                        return
                    self.received_bytes += len(data)
                    if self._keep is not None:
                        self._keep(data)
                    if len(data) >= self._limits.full_pipe_bytes and not self._is_grown:
                        self._grow()
                    await self._take(data)
                    if self.received_bytes >= self._owed_bytes:
                        self._caught_up.set()
        finally:
            self.ended.set()
            self._caught_up.set()

    async def catch_up(self) -> None:
        """Wait until everything that lies in the pipe now has been read."""
        self._owed_bytes = self.received_bytes + _waiting_bytes(self._reader)
        if self.received_bytes < self._owed_bytes and not self.ended.is_set():
            self._caught_up = anyio.Event()
            await self._caught_up.wait()

    def stop(self) -> None:
        """Read no more; what was read is still taken."""
        self._is_stopped = True
        self._waiting.cancel()

    def _grow(self) -> None:
        self._is_grown = True
        if _SET_PIPE_SIZE is not None:
            with suppress(OSError):  # The user's share of pipe memory may be used up.
                fcntl.fcntl(self._reader.fd, _SET_PIPE_SIZE, self._limits.pipe_bytes)

    async def _take(self, data: bytes) -> None:
        """Take the data in slices, as large as one turn allows."""
        at = 0
        while at < len(data):
            size = self._slice
            begun = time.perf_counter()
            self._capture.feed(data[at : at + size] if at or size < len(data) else data)
            now = time.perf_counter()
            at += size
            if now - begun > self._limits.turn_seconds:
                self._slice = max(size // 2, self._limits.smallest_slice_bytes)
            elif now - begun < self._limits.turn_seconds / 4:
                self._slice = min(size * 2, self._limits.read_bytes)
            if now - self._turn_began > self._limits.turn_seconds:
                await cancel_shielded_checkpoint()
                self._turn_began = time.perf_counter()


def _waiting_bytes(reader: PipeReader) -> int:
    """Return how many bytes lie in a pipe."""
    answer = fcntl.ioctl(reader.fd, termios.FIONREAD, b"\0\0\0\0")
    return int(struct.unpack("i", answer)[0])
