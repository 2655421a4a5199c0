"""Standard streams as a transport: those of a child that we start, or any two descriptors."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Self

import anyio
import msgspec
from anyio.abc import Process

from moorage.errors import BackendUnavailable, ShutdownIncomplete
from moorage.transports.descriptors import FdReader, FdWriter

PIPE_BYTES = 1024 * 1024

# Broken, closed by us, or read by another task already.
_NOTHING_TO_READ = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError)


class FdTransport:
    """Reads one descriptor and writes another; it owns and closes both."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        """Take both descriptors over."""
        self._reader = FdReader(read_fd)
        self._writer = FdWriter(write_fd)
        self.receive = self._reader.receive
        self.send = self._writer.send

    @property
    def is_torn(self) -> bool:
        """Return whether a send stopped in the middle."""
        return self._writer.is_torn

    async def close_sending(self) -> None:
        """Close the descriptor that is written."""
        self._writer.close()

    async def aclose(self) -> None:
        """Close both descriptors."""
        self._writer.close()
        self._reader.close()

    async def watch(self) -> None:
        """Return: nothing accompanies two descriptors."""

    async def diagnose(self) -> str:
        """Return nothing: two descriptors know nothing about the other side."""
        return ""


class ChildLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts of a child's end may take, and how much of its complaints is kept."""

    diagnosis_seconds: float = 1.0
    """After the end of its output: for its exit and the rest of its complaints."""

    drain_seconds: float = 2.0
    """After its exit: for output that something else still holds open."""

    kill_seconds: float = 2.0
    """After it was killed: for the kernel to take it away."""

    stderr_tail_bytes: int = 8192


class ChildTransport:
    """A worker started as a child; the bytes are its standard input and output.

    The child leads a session of its own, so that its whole group can be ended.
    """

    def __init__(
        self,
        process: Process,
        streams: tuple[FdWriter, FdReader, FdReader],
        grace_seconds: float,
        limits: ChildLimits,
    ) -> None:
        """Own a started child and our ends of its streams; use ``start``."""
        self._process = process
        self._stdin, self._stdout, self._stderr = streams
        self._grace_seconds = grace_seconds
        self._limits = limits
        self._tail = bytearray()
        self._output_ended = anyio.Event()
        self._complaints_ended = anyio.Event()
        self._is_closed = False
        self.send = self._stdin.send

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str],
        grace_seconds: float = 7.0,
        pass_fds: Sequence[int] = (),
        limits: ChildLimits | None = None,
    ) -> Self:
        """Start ``argv`` without a shell, with exactly ``variables``.

        Raises:
            BackendUnavailable: the program cannot be started.
        """
        with ExitStack() as ours, ExitStack() as theirs:
            their_in, our_in = _pipe(theirs, ours)
            our_out, their_out = _pipe(ours, theirs)
            _widen(our_in)
            _widen(our_out)
            our_err, their_err = _pipe(ours, theirs)
            try:
                process = await anyio.open_process(
                    list(argv),
                    stdin=their_in,
                    stdout=their_out,
                    stderr=their_err,
                    env=variables,
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                raise BackendUnavailable(
                    f"cannot start {argv[0]!r}: {error}.",
                    hint="Check that it is installed and may be executed.",
                ) from error
            ours.pop_all()
        streams = (FdWriter(our_in), FdReader(our_out), FdReader(our_err))
        return cls(process, streams, grace_seconds, limits or ChildLimits())

    @property
    def pid(self) -> int:
        """Return the child's process id, which is that of its group as well."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return how it exited, negative for a signal, or ``None`` while it runs."""
        return self._process.returncode

    @property
    def complaint(self) -> str:
        """Return the tail of what it wrote to its standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    @property
    def is_torn(self) -> bool:
        """Return whether a send stopped in the middle."""
        return self._stdin.is_torn

    async def receive(self) -> bytes:
        """Return the next bytes of its output; ``b""`` at its end or soon after its exit."""
        try:
            data = await self._stdout.receive()
        except anyio.ClosedResourceError:
            if not self._output_ended.is_set():
                raise
            return b""
        if not data:
            self._output_ended.set()
        return data

    async def close_sending(self) -> None:
        """Close the child's standard input: the polite request to end."""
        self._stdin.close()

    async def watch(self) -> None:
        """Keep the tail of its complaints, and end ``receive`` soon after the child has exited."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_complaints)
            await self._process.wait()
            if not await _within(self._limits.drain_seconds, self._output_ended):
                # Something that the child left behind still holds its output open.
                self._output_ended.set()
                self._stdout.close()

    async def diagnose(self) -> str:
        """Return how it exited and the tail of its complaints."""
        with anyio.move_on_after(self._limits.diagnosis_seconds):
            await self._process.wait()
            await self._complaints_ended.wait()
        match self._process.returncode:
            case None:
                parts = ["the worker process still runs"]
            case code if code < 0:
                parts = [f"the worker process was ended by signal {-code}"]
            case code:
                parts = [f"the worker process exited with {code}"]
        if self.complaint:
            parts.append(f"its last words: {self.complaint}")
        return "; ".join(parts)

    async def aclose(self) -> None:
        """End the child: end of its input, the grace, then force against its whole group.

        Raises:
            ShutdownIncomplete: force was needed; what the child looked after may remain.
        """
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            self._stdin.close()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._discard_output)
                tasks.start_soon(self._keep_complaints)
                is_forced = await self._end()
                tasks.cancel_scope.cancel()
            self._stdout.close()
            self._stderr.close()
            self._complaints_ended.set()
        if is_forced:
            raise ShutdownIncomplete(
                f"the worker did not end within {self._grace_seconds:g} s and was killed.",
                hint="What it looked after may remain; it was left for inspection.",
            )

    async def _end(self) -> bool:
        with anyio.move_on_after(self._grace_seconds):
            await self._process.wait()
        is_forced = self._process.returncode is None
        if is_forced or not await _within(self._limits.drain_seconds, self._output_ended):
            # Also when only its offspring remains: it holds the output open.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with anyio.move_on_after(self._limits.kill_seconds):
            await self._process.wait()
        return is_forced

    async def _discard_output(self) -> None:
        with suppress(*_NOTHING_TO_READ):
            while not self._output_ended.is_set():
                await self.receive()

    async def _keep_complaints(self) -> None:
        with suppress(*_NOTHING_TO_READ):
            while data := await self._stderr.receive():
                self._tail += data
                del self._tail[: -self._limits.stderr_tail_bytes]
        self._complaints_ended.set()


async def _within(seconds: float, event: anyio.Event) -> bool:
    """Return whether the event came in time."""
    with anyio.move_on_after(seconds):
        await event.wait()
    return event.is_set()


def _widen(pipe: int) -> None:
    """Let more travel at a time; the user may have used up what the kernel grants for that."""
    with suppress(OSError, AttributeError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """Return a new pipe whose ends are closed with the two stacks."""
    read_fd, write_fd = os.pipe()
    reading.callback(os.close, read_fd)
    writing.callback(os.close, write_fd)
    return read_fd, write_fd
