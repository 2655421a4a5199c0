"""Run a program for its output: hand the output on as it comes, and keep the end of its complaints.

For programs that Moorage itself needs, such as ripgrep and git. Commands of a user are run by
``foreground``, which keeps and accounts for everything.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from moorage.errors import EnvironmentDied
from moorage.process.child import LARGEST_PIPE_BYTES
from moorage.process.spec import ExitStatus

if TYPE_CHECKING:
    from moorage.process.child import PipeReader
    from moorage.process.spec import ProgramSpec
    from moorage.process.supervisor import Supervisor

# How many reads go by before other tasks have their turn, and before a deadline is noticed.
_READS_PER_TURN = 8
# How much of its last words stands in the description of an end.
_SHOWN_CHARACTERS = 200


class ReadingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is read at once, and how much of the complaints is kept."""

    read_bytes: int = 256 * 1024
    complaint_bytes: int = 8 * 1024
    # A program that writes a few bytes at a time would wake us each time; after this many small
    # reads in a row we look only every few milliseconds, and the pipe gathers meanwhile.
    small_bytes: int = 4 * 1024
    small_reads: int = 16
    gather_seconds: float = 0.003


class ProgramEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended; ``is_stopped`` when it was ended because no more output was wanted."""

    status: ExitStatus
    complaint: bytes
    is_stopped: bool = False

    @property
    def last_words(self) -> str:
        """Return the last line of its complaints."""
        return self.complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]

    @property
    def description(self) -> str:
        """Return how it ended that should have ended otherwise, with what it said last."""
        how = f"was ended by signal {self.status.signal}"
        if self.status.exit_code is not None:
            how = f"ended with exit code {self.status.exit_code}"
        words = self.last_words[-_SHOWN_CHARACTERS:]
        return f"{how} ({words})" if words else how


_Give = Callable[[bytes], Awaitable[None]]
# What is done with a piece of output; something true ends the program.
Take = Callable[[bytes], Awaitable[object]]


async def read_program(
    supervisor: Supervisor,
    spec: ProgramSpec,
    take: Take,
    *,
    limits: ReadingLimits | None = None,
) -> ProgramEnd:
    """Run a program and call ``take`` with each piece of its output.

    When ``take`` returns something true, the program is ended. Whatever it raises is raised.

    Raises:
        ProvisionError: the program cannot be started; nothing ran.
        EnvironmentDied: its launcher was lost.
    """
    reading = _Reading(take, limits or ReadingLimits())
    status = ExitStatus()
    async with supervisor.open(spec) as child:
        await child.started()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reading.follow, child.stdout, reading.hand_on, tasks.cancel_scope)
            tasks.start_soon(reading.follow, child.stderr, reading.keep, tasks.cancel_scope)
            try:
                status = await child.wait()
            except EnvironmentDied as error:
                reading.error = error
            tasks.cancel_scope.cancel()
        await reading.take_waiting(child.stdout, reading.hand_on)
        await reading.take_waiting(child.stderr, reading.keep)
        if reading.error is not None:
            raise reading.error
    return ProgramEnd(status=status, complaint=reading.complaint, is_stopped=reading.is_stopped)


class _Reading:
    """Where the output of one program goes.

    A program is over when it has ended, not when its pipes close: what it left in the background
    may hold them for ever.
    """

    def __init__(self, take: Take, limits: ReadingLimits) -> None:
        self._take = take
        self._limits = limits
        self.complaint = b""
        self.is_stopped = False
        self.error: Exception | None = None

    async def hand_on(self, chunk: bytes) -> None:
        """Give output to who wants it; an error is kept, to be raised outside the task group."""
        try:
            self.is_stopped = bool(await self._take(chunk))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised as it is
            self.error = error
            self.is_stopped = True

    async def keep(self, chunk: bytes) -> None:
        """Keep the end of the complaints."""
        self.complaint = (self.complaint + chunk)[-self._limits.complaint_bytes :]

    async def follow(self, reader: PipeReader, give: _Give, scope: anyio.CancelScope) -> None:
        """Read until the end, or until nothing more is wanted; that ends the waiting too."""
        limits = self._limits
        reads = small = 0
        while chunk := await reader.read(limits.read_bytes):
            await give(chunk)
            if self.is_stopped:
                scope.cancel()
                return
            reads += 1
            small = small + 1 if len(chunk) < limits.small_bytes else 0
            if small > limits.small_reads:
                await anyio.sleep(limits.gather_seconds)
            elif reads % _READS_PER_TURN == 0:
                await checkpoint()

    async def take_waiting(self, reader: PipeReader, give: _Give) -> None:
        """Take what the ended program left in the pipe; others may still write to it."""
        taken = 0
        while not (self.is_stopped or reader.is_at_end) and taken < LARGEST_PIPE_BYTES:
            try:
                chunk = os.read(reader.fd, self._limits.read_bytes)
            except BlockingIOError:
                return
            if not chunk:
                return
            taken += len(chunk)
            await give(chunk)
