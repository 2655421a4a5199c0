"""Foreground runs against a fake child on real pipes: every order of end, output and loss."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tests.process.foreground_desk import LIMITS, LONG, SHORT, Desk

from moorage.errors import EnvironmentDied, ProvisionError
from moorage.process.following import FollowLimits
from moorage.process.foreground import ForegroundLimits
from moorage.process.full_log import SavedLog


def content(saved: SavedLog) -> bytes:
    return Path(saved.path).read_bytes()


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
