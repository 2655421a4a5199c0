"""Run one command in the foreground: until it ends, its time is up, or the caller gives up.

The wait is for the command itself, not for its pipes: a child that it left behind may hold them for
ever. Nothing else may be left: on timeout and on cancellation the whole tree is ended.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

import anyio
import msgspec

from moorage.errors import EnvironmentDied, ExecutionError, ShutdownIncomplete
from moorage.process.capture import CaptureLimits, Masker, StreamCapture
from moorage.process.following import Follower, FollowLimits, take_waiting
from moorage.process.full_log import FullLog, LogLimits, SavedLog

if TYPE_CHECKING:
    from moorage.process.child import Child
    from moorage.process.managed.hand_over import HandOver, Successor, Wait
    from moorage.process.spec import ExitStatus, ProgramSpec
    from moorage.process.supervisor import Supervisor

Outcome = Literal[
    "exited", "signalled", "timed_out", "promoted", "cancelled", "environment_died", "unknown"
]

NOT_KNOWN = -1
"""The exit code of a command that was ended, or whose end nobody saw."""

_SIGNAL_BASE = 128


class ForegroundLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The durations and sizes of a foreground run."""

    settle_seconds: float = 0.004
    """Most commands are over by then, and their output is taken without a task to follow it."""

    end_grace_seconds: float = 2.0
    """From SIGTERM to SIGKILL when the time is up or the call was cancelled."""

    drain_seconds: float = 0.25
    """How long output of a child that outlived the command is still taken."""

    quiet_seconds: float = 0.1
    """How long such a child may be silent before nothing more is expected of it."""

    follow: FollowLimits = FollowLimits()
    capture: CaptureLimits = CaptureLimits()
    log: LogLimits = LogLimits()


class ForegroundResult(msgspec.Struct, kw_only=True):
    """How a command ended and what it printed; the streams are masked."""

    outcome: Outcome
    exit_code: int
    signal: int | None
    duration_ms: int
    stdout: StreamCapture
    stderr: StreamCapture
    left_running: int
    log: FullLog
    saved_log: SavedLog | None = None
    promoted_process_id: str = ""
    is_overdue: bool = False
    """Whether it was handed over only when its own time was up."""

    hand_over_error: str = ""
    """Why a command that should have gone on in the background could not."""

    @property
    def timed_out(self) -> bool:
        """Return whether the time of the command was up: it was ended, or handed over late."""
        return self.outcome == "timed_out" or self.is_overdue

    async def save_log(self) -> SavedLog | None:
        """Keep everything that was printed; ``None`` when ``log.error`` says why not."""
        if self.saved_log is None:
            self.saved_log = await self.log.close(self.stdout, self.stderr, self._summary())
        return self.saved_log

    def _summary(self) -> str:
        return (
            f"outcome: {self.outcome}\n"
            f"exit code: {self.exit_code}\n"
            f"duration: {self.duration_ms} ms\n"
            f"timed out: {'yes' if self.timed_out else 'no'}\n"
            f"bytes printed: stdout {self.stdout.total_bytes}, stderr {self.stderr.total_bytes}\n"
        )


async def run_foreground(
    supervisor: Supervisor,
    spec: ProgramSpec,
    *,
    wait: Wait,
    limits: ForegroundLimits,
    redactor: Masker,
    log_dir: str,
) -> ForegroundResult:
    """Run a program to its end, or to the end of its time, and return what it did.

    Where it may be handed over, a program that takes longer goes on as the same process elsewhere.

    A loss of the environment is an outcome here, with what was printed until then. Cancellation
    ends the tree, leaves no log and goes on.

    Raises:
        ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
        InvalidArguments: the command is longer than the system takes; nothing ran.
        ProvisionError: the program or its directory cannot be used; nothing ran.
    """
    run = _Run(spec, limits, redactor, log_dir)
    try:
        try:
            async with supervisor.open(spec) as child:
                await run.watch(child, wait)
        except EnvironmentDied:
            run.outcome = "environment_died"
        return await run.result()
    except BaseException:
        run.log.discard()
        raise
    finally:
        run.let_go()


class _Run:
    """One run, from its start to its result."""

    def __init__(
        self,
        spec: ProgramSpec,
        limits: ForegroundLimits,
        masker: Masker,
        log_dir: str,
    ) -> None:
        self.outcome: Outcome = "unknown"
        self.log = FullLog(log_dir, self._name_log, self._head_log, limits.log)
        self._spec = spec
        self._limits = limits
        self._masker = masker
        self._successor: Successor | None = None
        self._promoted_id = ""
        self._is_overdue = False
        self._hand_over_error = ""
        self._begun = time.monotonic()
        self._stdout = StreamCapture(masker, limits.capture, self.log.spill_stdout)
        self._stderr = StreamCapture(masker, limits.capture, self.log.spill_stderr)
        self._status: ExitStatus | None = None
        self._left_running = 0

    async def watch(self, child: Child, wait: Wait) -> None:
        """Wait for the child, then for its output; end its tree when it may not go on."""
        begun = anyio.current_time()
        try:
            await self._settle(child, min(self._limits.settle_seconds, wait.timeout_seconds))
            if self._status is None:
                # A task group would wrap the reason why it could not be started.
                await child.started()
            if not (self._status and child.stdout.is_at_end and child.stderr.is_at_end):
                await self._follow(child, begun, wait)
            if self._status is not None:
                self._left_running = await child.count_left()
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(ShutdownIncomplete):
                await child.end(self._limits.end_grace_seconds)
            raise

    async def result(self) -> ForegroundResult:
        """Return what is known now; the log is completed when there is one."""
        self._stdout.finish()
        self._stderr.finish()
        status = self._status
        code, number = NOT_KNOWN, None
        if status is not None and status.signal is not None:
            self.outcome, number = "signalled", status.signal
            code = _SIGNAL_BASE + status.signal
        elif status is not None and status.exit_code is not None:
            self.outcome, code = "exited", status.exit_code
        result = ForegroundResult(
            outcome=self.outcome,
            exit_code=code,
            signal=number,
            duration_ms=round((time.monotonic() - self._begun) * 1000),
            stdout=self._stdout,
            stderr=self._stderr,
            left_running=self._left_running,
            log=self.log,
            promoted_process_id=self._promoted_id,
            is_overdue=self._is_overdue,
            hand_over_error=self._hand_over_error,
        )
        if self.outcome == "promoted":
            # Its whole output is with the process, from the first byte on.
            self.log.discard()
        elif self.log.is_begun:
            await result.save_log()
        return result

    async def _settle(self, child: Child, seconds: float) -> None:
        """Let a short command end, and take its output, which fits into the pipes."""
        with anyio.move_on_after(seconds):
            await self._await_end(child)
        if self._status is not None:
            take_waiting(child.stdout, self._stdout, self._limits.follow)
            take_waiting(child.stderr, self._stderr, self._limits.follow)

    def _is_running(self) -> bool:
        return self._status is None and self.outcome == "unknown"

    async def _follow(self, child: Child, begun: float, wait: Wait) -> None:
        """Follow the output for as long as the child runs here, and a little longer."""
        deadline = begun + wait.timeout_seconds
        if self._is_running() and wait.hand_over is not None:
            moment = min(begun + wait.hand_over.after_seconds, deadline)
            if await self._follow_and_hand_over(child, (moment, deadline), wait.hand_over):
                return
        await self._follow_to_end(child, deadline)

    async def _follow_and_hand_over(
        self, child: Child, moments: tuple[float, float], hand_over: HandOver
    ) -> bool:
        """Hand over at the first moment, or at the last; return whether that was done."""
        successor = self._find_successor(hand_over)
        if successor is None:
            return False
        first, last = moments
        if await self._hand_over_at(first, child, successor):
            return True
        self._is_overdue = first < last and await self._hand_over_at(last, child, successor)
        return self._is_overdue

    def _find_successor(self, hand_over: HandOver) -> Successor | None:
        try:
            self._successor = hand_over.find_successor()
        except ExecutionError as error:
            self._hand_over_error = str(error)
        return self._successor

    def _followers(self, child: Child) -> tuple[Follower, Follower]:
        keep = self._successor.write if self._successor is not None else None
        limits = self._limits.follow
        return (
            Follower(child.stdout, self._stdout, limits, keep),
            Follower(child.stderr, self._stderr, limits, keep),
        )

    async def _hand_over_at(self, moment: float, child: Child, successor: Successor) -> bool:
        """Follow the output until a moment, then hand over; return whether that was done."""
        if not self._is_running():
            return False
        followers = self._followers(child)
        async with anyio.create_task_group() as tasks:
            for follower in followers:
                tasks.start_soon(follower.run)
            with anyio.CancelScope(deadline=moment):
                await self._await_end(child)
            # What was read is taken in; the rest stays in the pipes for whoever reads on.
            for follower in followers:
                follower.stop()
        if not self._is_running():
            return False
        try:
            self._promoted_id = await successor.adopt(child)
        except ExecutionError as error:
            self._hand_over_error = str(error)
            return False
        self.outcome = "promoted"
        return True

    def let_go(self) -> None:
        """Drop what was kept for a successor that did not take over."""
        if self._successor is not None and self.outcome != "promoted":
            self._successor.discard()

    async def _follow_to_end(self, child: Child, deadline: float) -> None:
        followers = self._followers(child)
        async with anyio.create_task_group() as tasks:
            for follower in followers:
                tasks.start_soon(follower.run)
            if self._is_running():
                with anyio.CancelScope(deadline=deadline):
                    await self._await_end(child)
            if self._is_running():
                self.outcome = "timed_out"
                self._left_running = await self._end(child)
            await self._drain(followers)

    async def _await_end(self, child: Child) -> None:
        try:
            self._status = await child.wait()
        except EnvironmentDied:
            self.outcome = "environment_died"

    async def _end(self, child: Child) -> int:
        """End the tree and return how many of its processes the kernel still holds."""
        try:
            await child.end(self._limits.end_grace_seconds)
        except ShutdownIncomplete:
            return await child.count_left()
        return 0

    async def _drain(self, followers: tuple[Follower, Follower]) -> None:
        """Take all that was printed until now, and a little of what others still print."""
        for follower in followers:
            await follower.catch_up()
        with anyio.move_on_after(self._limits.drain_seconds):
            while not await self._is_quiet(followers):
                pass
        for follower in followers:
            follower.stop()

    async def _is_quiet(self, followers: tuple[Follower, Follower]) -> bool:
        """Return whether the pipes are closed, or nothing came for a while."""
        received = sum(follower.received_bytes for follower in followers)
        with anyio.move_on_after(self._limits.quiet_seconds):
            for follower in followers:
                await follower.ended.wait()
        return received == sum(follower.received_bytes for follower in followers)

    def _name_log(self) -> str:
        moment = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(moment))
        digest = sha256(self._masker.text(self._spec.argv[-1]).encode("utf-8", "replace"))
        return f"{stamp}.{int(moment * 1e6) % 1_000_000:06d}Z-{digest.hexdigest()[:12]}"

    def _head_log(self) -> bytes:
        command = self._masker.text(self._spec.argv[-1])
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = f"command: {command}\ncwd: {self._spec.cwd}\nstarted: {started}\n\n"
        return text.encode("utf-8", "replace")
