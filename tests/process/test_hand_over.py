"""Foreground runs that go on elsewhere, against a fake child on real pipes."""

from __future__ import annotations

import os
from typing import Any

import anyio
from tests.process.foreground_desk import LIMITS, LONG, SHORT, Desk

from moorage.errors import ProvisionError
from moorage.process.managed.hand_over import HandOver


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
