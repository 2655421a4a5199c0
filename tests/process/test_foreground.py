"""Foreground runs against a fake child on real pipes: every order of end, output and loss."""

from __future__ import annotations

import fcntl
import os
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from moorage.confine.plan import Plan
from moorage.errors import EnvironmentDied, ProvisionError, ShutdownIncomplete
from moorage.policy.permission import PermissionMode
from moorage.process.capture import CaptureLimits
from moorage.process.child import PipeReader
from moorage.process.following import FollowLimits
from moorage.process.foreground import ForegroundLimits, ForegroundResult, run_foreground
from moorage.process.full_log import SavedLog
from moorage.process.hand_over import HandOver, Wait
from moorage.process.spec import ExitStatus, ProgramSpec
from moorage.workspace.redact import Redactor

LONG, SHORT = 30.0, 0.02
LIMITS = ForegroundLimits(
    settle_seconds=SHORT,
    end_grace_seconds=0.5,
    drain_seconds=LONG,
    quiet_seconds=SHORT,
    capture=CaptureLimits(whole_bytes=1024, unmasked_bytes=1024, head_bytes=300, tail_bytes=600),
)
PLAN = Plan(mode=PermissionMode.STANDARD)


class FakeChild:
    """A child whose output and end the test decides; its pipes are real."""

    pid = 4711

    def __init__(self) -> None:
        out, self.out = os.pipe()
        err, self.err = os.pipe()
        self.stdout, self.stderr = PipeReader(out), PipeReader(err)
        self.ended_with: list[float] = []
        self.left = 0
        self.dies_hard = False
        self.on_end: Callable[[], Awaitable[None]] | None = None
        self._status: ExitStatus | None = None
        self._is_lost = False
        self._exited = anyio.Event()

    def exit(self, code: int | None = 0, *, signal: int | None = None, closes: bool = True) -> None:
        self._status = ExitStatus(exit_code=code, signal=signal)
        if closes:
            self.close()
        self._exited.set()

    async def started(self) -> None:
        """It runs from the first."""

    def lose(self) -> None:
        self._is_lost = True
        self.close()
        self._exited.set()

    def close(self) -> None:
        for name in ("out", "err"):
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)

    async def wait(self) -> ExitStatus:
        await self._exited.wait()
        if self._is_lost:
            raise EnvironmentDied("the launcher was lost.")
        assert self._status is not None
        return self._status

    async def end(self, grace_seconds: float) -> None:
        self.ended_with.append(grace_seconds)
        if self.on_end is not None:
            await self.on_end()
        self.close()
        if self.dies_hard:
            raise ShutdownIncomplete("1 process survived SIGKILL.")

    async def count_left(self) -> int:
        return self.left


class FakeSupervisor:
    def __init__(self, child: FakeChild) -> None:
        self.child = child
        self.refusal: Exception | None = None

    @asynccontextmanager
    async def open(self, spec: ProgramSpec) -> AsyncIterator[FakeChild]:
        if self.refusal is not None:
            raise self.refusal
        yield self.child


class Desk:
    """A child, and a run of it in the foreground."""

    def __init__(self, logs: Path) -> None:
        self.child = FakeChild()
        self.supervisor = FakeSupervisor(self.child)
        self.logs = logs
        self.hand_over: HandOver | None = None

    async def run(
        self, *, timeout_seconds: float = LONG, limits: ForegroundLimits = LIMITS
    ) -> ForegroundResult:
        supervisor: Any = self.supervisor
        with anyio.fail_after(5):
            return await run_foreground(
                supervisor,
                ProgramSpec(argv=("bash", "-c", "say password=hunter2"), plan=PLAN, cwd="/work"),
                wait=Wait(timeout_seconds=timeout_seconds, hand_over=self.hand_over),
                limits=limits,
                redactor=Redactor(),
                log_dir=str(self.logs),
            )

    async def until_read(self) -> None:
        """Wait until everything written to stdout was read."""
        while os.fstat(self.child.stdout.fd).st_size or _waiting(self.child.stdout.fd):
            await anyio.lowlevel.checkpoint()


def _waiting(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")


def content(saved: SavedLog) -> bytes:
    return Path(saved.path).read_bytes()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path / "logs")
    yield desk
    desk.child.close()
    desk.child.stdout.close()
    desk.child.stderr.close()


async def test_a_short_command_is_over_with_its_output(desk: Desk) -> None:
    os.write(desk.child.out, b"out\n")
    os.write(desk.child.err, b"err\n")
    desk.child.exit(0)
    result = await desk.run()
    assert (result.outcome, result.exit_code, result.signal) == ("exited", 0, None)
    assert (result.stdout.data, result.stderr.data) == (b"out\n", b"err\n")
    assert (result.timed_out, result.left_running) == (False, 0)
    assert not desk.logs.exists()
    assert desk.child.ended_with == []


async def test_a_longer_command_is_followed_to_its_end(desk: Desk) -> None:
    async def live() -> None:
        for number in range(200):
            os.write(desk.child.out, b"line %d\n" % number)
            await desk.until_read()
        desk.child.exit(3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        result = await desk.run()
    assert (result.outcome, result.exit_code) == ("exited", 3)
    assert result.stdout.total_bytes == sum(len(f"line {number}\n") for number in range(200))


async def test_a_signal_gives_the_shells_convention(desk: Desk) -> None:
    desk.child.exit(None, signal=9)
    result = await desk.run()
    assert (result.outcome, result.exit_code, result.signal) == ("signalled", 137, 9)


async def test_a_child_that_holds_the_pipes_cannot_hold_the_call(desk: Desk) -> None:
    os.write(desk.child.out, b"started\n")
    desk.child.left = 1
    desk.child.exit(0, closes=False)
    result = await desk.run()
    assert (result.outcome, result.stdout.data) == ("exited", b"started\n")
    assert result.left_running == 1
    assert desk.child.ended_with == []


async def test_a_child_that_prints_for_ever_cannot_hold_the_call(desk: Desk) -> None:
    desk.child.exit(0, closes=False)

    async def chatter() -> None:
        while True:
            os.write(desk.child.out, b"more\n")
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chatter)
        limits = ForegroundLimits(settle_seconds=SHORT, drain_seconds=SHORT, quiet_seconds=LONG)
        result = await desk.run(limits=limits)
        tasks.cancel_scope.cancel()
    assert result.outcome == "exited"
    assert result.stdout.total_bytes > 0


async def test_what_comes_shortly_after_the_end_is_still_taken(desk: Desk) -> None:
    os.write(desk.child.out, b"first\n")
    desk.child.exit(0, closes=False)
    limits = ForegroundLimits(settle_seconds=SHORT, drain_seconds=LONG, quiet_seconds=LONG)

    async def finish() -> None:
        await desk.until_read()
        os.write(desk.child.out, b"second\n")
        desk.child.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finish)
        result = await desk.run(limits=limits)
    assert result.stdout.data == b"first\nsecond\n"


async def test_everything_printed_before_the_end_is_taken_however_slowly(desk: Desk) -> None:
    os.write(desk.child.out, b"0123456789abcde\n" * 4096)
    desk.child.exit(0, closes=False)
    limits = ForegroundLimits(
        settle_seconds=SHORT,
        drain_seconds=0.0,
        quiet_seconds=0.0,
        follow=FollowLimits(read_bytes=512, full_pipe_bytes=512, turn_seconds=0.0),
    )
    result = await desk.run(limits=limits)
    assert result.stdout.total_bytes == 65_536


async def test_at_the_timeout_the_tree_is_ended_and_what_was_printed_is_returned(
    desk: Desk,
) -> None:
    os.write(desk.child.out, b"before\n")

    async def say_goodbye() -> None:
        os.write(desk.child.err, b"terminated\n")

    desk.child.on_end = say_goodbye
    result = await desk.run(timeout_seconds=SHORT * 2)
    assert (result.outcome, result.exit_code, result.timed_out) == ("timed_out", -1, True)
    assert (result.stdout.data, result.stderr.data) == (b"before\n", b"terminated\n")
    assert desk.child.ended_with == [LIMITS.end_grace_seconds]
    assert result.left_running == 0


async def test_a_timeout_shorter_than_the_settling_still_ends_the_tree(desk: Desk) -> None:
    result = await desk.run(timeout_seconds=0.001)
    assert result.outcome == "timed_out"


async def test_what_survives_sigkill_is_counted(desk: Desk) -> None:
    desk.child.dies_hard = True
    desk.child.left = 2
    result = await desk.run(timeout_seconds=SHORT)
    assert (result.outcome, result.left_running) == ("timed_out", 2)


@pytest.mark.parametrize("is_over", [False, True])
async def test_cancellation_ends_the_tree_leaves_no_log_and_goes_on(
    desk: Desk, is_over: bool
) -> None:
    os.write(desk.child.out, b"line\n" * 1000)
    has_ended = anyio.Event()

    async def end() -> None:
        await anyio.lowlevel.checkpoint()  # A cancelled scope would not let this pass.
        has_ended.set()

    desk.child.on_end = end
    if is_over:
        desk.child.exit(0, closes=False)
    limits = ForegroundLimits(
        settle_seconds=SHORT, drain_seconds=LONG, quiet_seconds=LONG, capture=LIMITS.capture
    )
    is_past = False
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            nonlocal is_past
            await desk.run(limits=limits)
            is_past = True

        tasks.start_soon(run)
        await desk.until_read()
        while not desk.logs.exists():
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert has_ended.is_set()
    assert not is_past
    assert os.listdir(desk.logs) == []


@pytest.mark.parametrize("when", ["at once", "later", "at the start"])
async def test_a_lost_environment_is_an_outcome_with_what_was_printed(
    desk: Desk, when: str
) -> None:
    os.write(desk.child.out, b"so far\n")

    async def lose() -> None:
        await desk.until_read()
        desk.child.lose()

    async with anyio.create_task_group() as tasks:
        if when == "at once":
            desk.child.lose()
        elif when == "later":
            tasks.start_soon(lose)
        else:
            desk.supervisor.refusal = EnvironmentDied("the launcher was lost.")
        result = await desk.run()
    assert (result.outcome, result.exit_code) == ("environment_died", -1)
    assert result.stdout.data == (b"" if when == "at the start" else b"so far\n")


async def test_a_program_that_cannot_be_started_is_the_callers_to_know(desk: Desk) -> None:
    desk.supervisor.refusal = ProvisionError("there is no bash.")
    with pytest.raises(ProvisionError):
        await desk.run()


async def test_long_output_is_in_a_log_that_tells_the_whole_story(desk: Desk) -> None:
    os.write(desk.child.out, b"x" * 5000)
    os.write(desk.child.err, b"short\n")
    desk.child.exit(2)
    result = await desk.run()
    saved = result.saved_log
    assert saved is not None
    text = content(saved).decode()
    head, _, rest = text.partition("--- stdout ---\n")
    assert "command: say password=[REDACTED]\n" in head
    assert "cwd: /work\n" in head
    assert "started: 2" in head
    assert rest.startswith("x" * 5000 + "\n--- stderr ---\nshort\n\n--- end ---\n")
    assert "outcome: exited\nexit code: 2\n" in rest
    assert "bytes printed: stdout 5000, stderr 6\n" in rest
    assert await result.save_log() is saved


async def test_short_output_can_still_be_kept_when_it_is_asked_for(desk: Desk) -> None:
    os.write(desk.child.out, b"10%\r20%\n")
    desk.child.exit(0)
    result = await desk.run()
    assert result.saved_log is None
    saved = await result.save_log()
    assert saved is not None
    assert b"10%\r20%\n" in content(saved)


async def test_other_tasks_have_their_turn_while_much_output_is_taken(desk: Desk) -> None:
    turns: list[int] = []
    limits = ForegroundLimits(
        settle_seconds=SHORT,
        follow=FollowLimits(turn_seconds=0.0, smallest_slice_bytes=1024),
        capture=LIMITS.capture,
    )
    os.write(desk.child.out, b"y" * 65_536)
    desk.child.exit(0, closes=False)

    async def other() -> None:
        while not desk.logs.exists():
            await anyio.lowlevel.checkpoint()
        while True:
            turns.append(1)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        result = await desk.run(limits=limits)
        tasks.cancel_scope.cancel()
    assert result.stdout.total_bytes == 65_536
    assert len(turns) > 20


class FakeSuccessor:
    """Takes over, or refuses as often as it is told to."""

    def __init__(self, desk: Desk, *, after_seconds: float, refusals: int = 0) -> None:
        self.kept = b""
        self.is_discarded = False
        self.asked = 0
        self.refusals = refusals
        desk.hand_over = HandOver(find_successor=lambda: self, after_seconds=after_seconds)

    def write(self, data: bytes) -> None:
        self.kept += data

    async def adopt(self, child: Any) -> str:
        self.asked += 1
        if self.asked <= self.refusals:
            raise ProvisionError("no room.")
        return f"proc-{child.pid}"

    def discard(self) -> None:
        self.is_discarded = True


async def test_a_command_that_takes_longer_goes_on_as_the_same_process(desk: Desk) -> None:
    successor = FakeSuccessor(desk, after_seconds=SHORT * 3)
    os.write(desk.child.out, b"before password=hunter2\n")
    result = await desk.run()
    assert (result.outcome, result.exit_code, result.timed_out) == ("promoted", -1, False)
    assert result.promoted_process_id == f"proc-{desk.child.pid}"
    assert (result.stdout.data, successor.kept) == (
        b"before password=[REDACTED]\n",
        b"before password=hunter2\n",
    )
    assert desk.child.ended_with == []
    assert not successor.is_discarded
    # What comes now stays in the pipe for whoever reads on.
    os.write(desk.child.out, b"after\n")
    assert os.read(desk.child.stdout.fd, 100) == b"after\n"


async def test_what_was_printed_in_full_goes_on_with_the_process_and_leaves_no_log(
    desk: Desk,
) -> None:
    successor = FakeSuccessor(desk, after_seconds=SHORT * 3)
    os.write(desk.child.out, b"line\n" * 1000)
    result = await desk.run()
    assert result.outcome == "promoted"
    assert successor.kept == b"line\n" * 1000
    assert os.listdir(desk.logs) == []


async def test_a_timeout_below_the_hand_over_is_the_moment_of_it(desk: Desk) -> None:
    FakeSuccessor(desk, after_seconds=LONG)
    result = await desk.run(timeout_seconds=SHORT * 3)
    assert (result.outcome, result.timed_out) == ("promoted", False)


async def test_after_a_failed_hand_over_the_wait_goes_on_to_the_end(desk: Desk) -> None:
    successor = FakeSuccessor(desk, after_seconds=SHORT * 2, refusals=1)
    os.write(desk.child.out, b"before\n")
    async with anyio.create_task_group() as tasks:

        async def end_after_the_refusal() -> None:
            while not successor.asked:
                await anyio.lowlevel.checkpoint()
            os.write(desk.child.out, b"after\n")
            desk.child.exit(0)

        tasks.start_soon(end_after_the_refusal)
        result = await desk.run()
    assert (result.outcome, result.exit_code) == ("exited", 0)
    assert result.stdout.data == b"before\nafter\n"
    assert result.hand_over_error == "no room."
    assert (successor.asked, successor.is_discarded) == (1, True)


async def test_at_the_timeout_the_hand_over_is_tried_once_more(desk: Desk) -> None:
    successor = FakeSuccessor(desk, after_seconds=SHORT * 2, refusals=1)
    result = await desk.run(timeout_seconds=SHORT * 5)
    assert (result.outcome, result.timed_out, successor.asked) == ("promoted", True, 2)


async def test_without_any_hand_over_the_timeout_ends_the_tree(desk: Desk) -> None:
    successor = FakeSuccessor(desk, after_seconds=SHORT * 2, refusals=2)
    result = await desk.run(timeout_seconds=SHORT * 5)
    assert (result.outcome, result.timed_out, result.promoted_process_id) == ("timed_out", True, "")
    assert desk.child.ended_with == [LIMITS.end_grace_seconds]
    assert (successor.asked, successor.is_discarded) == (2, True)


async def test_a_successor_that_cannot_be_had_leaves_the_command_in_the_foreground(
    desk: Desk,
) -> None:
    def refuse() -> Any:
        raise ProvisionError("no folder.")

    desk.hand_over = HandOver(find_successor=refuse, after_seconds=SHORT * 2)
    result = await desk.run(timeout_seconds=SHORT * 4)
    assert (result.outcome, result.hand_over_error) == ("timed_out", "no folder.")


async def test_a_short_command_asks_for_no_successor(desk: Desk) -> None:
    def refuse() -> Any:
        raise AssertionError

    desk.hand_over = HandOver(find_successor=refuse, after_seconds=0)
    desk.child.exit(3)
    assert (await desk.run()).exit_code == 3


async def test_cancellation_ends_the_tree_and_hands_nothing_over(desk: Desk) -> None:
    successor = FakeSuccessor(desk, after_seconds=LONG)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.run)
        os.write(desk.child.out, b"begun")
        while not successor.kept:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert desk.child.ended_with == [LIMITS.end_grace_seconds]
    assert (successor.asked, successor.is_discarded) == (0, True)


async def test_a_launcher_lost_before_the_hand_over_is_a_lost_environment(desk: Desk) -> None:
    successor = FakeSuccessor(desk, after_seconds=LONG)
    async with anyio.create_task_group() as tasks:

        async def lose() -> None:
            while not successor.kept:
                await anyio.lowlevel.checkpoint()
            desk.child.lose()

        os.write(desk.child.out, b"begun")
        tasks.start_soon(lose)
        result = await desk.run()
    assert (result.outcome, successor.is_discarded) == ("environment_died", True)
