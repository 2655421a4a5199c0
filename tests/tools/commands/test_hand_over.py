"""When a foreground command goes on in the background, and what stays the same then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.tools.commands.conftest import LIMITS, CommandDesk

from moorage.errors import InvalidArguments
from moorage.process.managed.hand_over import Wait
from moorage.tools import bash
from moorage.tools.bash import BashLimits

pytestmark = pytest.mark.needs("landlock")

COUNTING = "i=0; until test -e go; do echo $i; i=$((i+1)); done; echo $i >&2"


def after(seconds: float) -> BashLimits:
    return msgspec.structs.replace(LIMITS, hand_over_seconds=seconds)


async def control(desk: CommandDesk, action: str, **arguments: Any) -> dict[str, Any]:
    result = await desk.call(action=action, **arguments)
    assert result.structured_content is not None
    return result.structured_content


async def test_a_command_may_be_handed_over_after_ten_seconds(
    desk: CommandDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    async def run(*_: object, wait: Wait, **__: object) -> None:
        seen.append(wait.hand_over)
        raise InvalidArguments("seen enough")

    monkeypatch.setattr(bash, "run_foreground", run)
    desk.use(BashLimits())
    for allowed in (True, False):
        with pytest.raises(InvalidArguments, match="seen enough"):
            await desk.call(command="true", hand_over=allowed)
    assert seen[0] is not None
    assert seen[0].after_seconds == 10
    assert seen[1] is None


async def test_a_shorter_timeout_is_the_moment_of_the_hand_over(desk: CommandDesk) -> None:
    desk.use(after(1000))
    _, envelope = await desk.bash("sleep 60", timeout_seconds=1)
    assert (envelope["outcome"], envelope["exit_code"]) == ("promoted", -1)
    assert envelope["timed_out"] is False
    (listed,) = (await control(desk, "list"))["processes"]
    assert (listed["id"], listed["status"]) == (envelope["promoted_process_id"], "running")


async def test_where_nobody_can_be_told_of_its_end_a_command_keeps_its_whole_wait(
    desk: CommandDesk,
) -> None:
    desk.use(after(0.05))
    command = "sleep 0.5; echo done"
    _, handed_over = await desk.bash(command, timeout_seconds=30)
    assert handed_over["outcome"] == "promoted"
    text, envelope = await desk.bash(command, timeout_seconds=30, hand_over=False)
    assert (envelope["outcome"], envelope["exit_code"], text) == ("exited", 0, "done")
    assert "promoted_process_id" not in envelope


async def test_output_across_the_hand_over_is_one_stream_without_a_gap(desk: CommandDesk) -> None:
    desk.use(after(0.15))
    _, envelope = await desk.bash(COUNTING)
    assert envelope["outcome"] == "promoted"
    process_id = envelope["promoted_process_id"]
    # Well beyond what was printed before.
    reached = envelope["stdout_bytes"] + 200_000
    await control(desk, "read", process_id=process_id, offset_bytes=reached, wait_ms=10_000)
    (desk.path / "go").touch()
    output, offset, found = "", 0, {"status": "running", "total_bytes": 0}
    while found["status"] == "running" or offset < found["total_bytes"]:
        arguments = {"process_id": process_id, "offset_bytes": offset, "max_bytes": 100_003}
        found = await control(desk, "read", **arguments, wait_ms=10_000)
        assert found["start_offset"] == offset
        output, offset = output + found["output"], found["end_offset"]
    numbers = [int(line) for line in output.splitlines()]
    assert numbers == list(range(len(numbers)))
    assert len(output) == found["total_bytes"] > envelope["stdout_bytes"]


async def test_what_goes_on_belongs_to_whom_the_command_belonged(desk: CommandDesk) -> None:
    desk.use(after(0.15))
    _, envelope = await desk.bash("echo $$; sleep 60")
    (listed,) = (await control(desk, "list"))["processes"]
    assert listed["pid"] == int(envelope["stdout"])
    assert (listed["root_thread_id"], listed["owner_id"]) == ("session", "actor")
    assert (listed["lifecycle"], listed["completion_mode"]) == ("session", "resume")
