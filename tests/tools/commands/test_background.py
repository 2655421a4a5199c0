"""``bash`` on commands that go on: started in the background, handed over, and controlled."""

from __future__ import annotations

import re
from typing import Any

import anyio
import msgspec
import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ToolResult
from moorage.tools.bash import BashLimits

pytestmark = pytest.mark.needs("landlock")


def quick(limits: BashLimits, seconds: float | None = 0.15) -> BashLimits:
    return msgspec.structs.replace(limits, hand_over_seconds=seconds)


@pytest.fixture
def hasty(desk):
    """A desk whose commands are handed over soon."""
    from tests.tools.commands.conftest import LIMITS  # noqa: PLC0415

    desk.use(quick(LIMITS))
    return desk


def structured(result: ToolResult) -> dict[str, Any]:
    assert result.structured_content is not None
    return result.structured_content


async def read_to_end(desk, process_id: str, offset: int = 0) -> dict[str, Any]:
    """Read from an offset until the process has ended; the last result with all the output."""
    output = ""
    while True:
        found = structured(
            await desk.call(
                action="read", process_id=process_id, offset_bytes=offset, wait_ms=10_000
            )
        )
        output += found["output"]
        offset = found["end_offset"]
        if found["process"]["status"] in {"stopped", "failed"} and offset == found["total_bytes"]:
            return found | {"output": output}


async def test_a_background_start_returns_a_record_at_once_and_runs_in_a_terminal(desk) -> None:
    result = await desk.call(command="test -t 1 && echo terminal; exit 3", run_in_background=True)
    found = structured(result)
    assert found["action"] == "start"
    assert found["id"] == found["process_id"]
    assert result.text == (
        f"Started {found['id']} in the background (running). "
        f"Read its output with action=read, process_id={found['id']}."
    )
    assert found["classification"]["risk"] == "high"
    assert found["classification"]["reason"].startswith("background: ")
    end = await read_to_end(desk, found["id"])
    assert end["output"] == "terminal\r\n"
    assert (end["status"], end["exit_code"]) == ("failed", 3)


async def test_a_slow_command_goes_on_as_the_same_process_with_the_same_output(hasty) -> None:
    command = "echo $$ before; until test -e go; do sleep 0.01; done; echo after >&2; exit 4"
    text, envelope = await hasty.bash(command)
    assert (envelope["outcome"], envelope["exit_code"]) == ("promoted", -1)
    assert envelope["timed_out"] is False
    process_id = envelope["promoted_process_id"]
    assert f"it goes on as {process_id} and has not ended" in text
    (listed,) = structured(await hasty.call(action="list"))["processes"]
    assert listed["id"] == process_id
    assert str(listed["pid"]) == envelope["stdout"].split()[0]
    (hasty.path / "go").touch()
    end = await read_to_end(hasty, process_id)
    assert end["output"] == f"{listed['pid']} before\nafter\n"
    assert end["exit_code"] == 4


async def test_a_promoted_process_takes_no_input(hasty) -> None:
    _, envelope = await hasty.bash("sleep 60")
    with pytest.raises(InvalidArguments, match="input"):
        await hasty.call(action="write", process_id=envelope["promoted_process_id"], input="x\n")


async def test_with_hand_over_a_timeout_with_a_background_child_ends_nothing(hasty) -> None:
    command = "sleep 60 & echo $$ $!; sleep 60"
    _, envelope = await hasty.bash(command, timeout_seconds=1)
    assert envelope["outcome"] == "promoted"
    shell, child = map(int, envelope["stdout"].split())
    (listed,) = structured(await hasty.call(action="list"))["processes"]
    assert listed["pid"] == shell
    assert hasty.is_alive(shell)
    assert hasty.is_alive(child)
    await hasty.call(action="stop", process_id=envelope["promoted_process_id"])
    await hasty.until_gone(shell)
    await hasty.until_gone(child)


async def test_a_command_that_may_not_be_handed_over_is_ended_at_its_timeout(hasty) -> None:
    _, envelope = await hasty.bash("sleep 60", timeout_seconds=1, hand_over=False)
    assert (envelope["outcome"], envelope["timed_out"]) == ("timed_out", True)
    assert structured(await hasty.call(action="list"))["processes"] == []


async def test_hand_over_can_be_switched_off_for_all(desk) -> None:
    from tests.tools.commands.conftest import LIMITS  # noqa: PLC0415

    desk.use(quick(LIMITS, None))
    _, envelope = await desk.bash("sleep 60", timeout_seconds=1)
    assert envelope["outcome"] == "timed_out"


async def test_a_hand_over_that_fails_waits_on_and_then_ends_the_tree(hasty) -> None:
    logs = hasty.own / "logs"
    for path in (logs, hasty.own / "processes"):
        path.chmod(0o500)
    hasty.processes._ledger.store.save = _refuse
    text, envelope = await hasty.bash("echo $$; sleep 60", timeout_seconds=1)
    assert (envelope["outcome"], envelope["timed_out"]) == ("timed_out", True)
    assert "promoted_process_id" not in envelope
    assert "It could not go on in the background: The command cannot go on" in text
    assert not hasty.is_alive(int(envelope["stdout"]))
    assert list(logs.iterdir()) == []


def _refuse(_: object) -> None:
    raise OSError(28, "No space left on device")


async def test_cancelling_a_command_ends_its_tree_and_leaves_no_record(desk) -> None:
    async with anyio.create_task_group() as tasks:
        command = "echo $$ > pid.new; mv pid.new pid; sleep 60"
        tasks.start_soon(lambda: desk.call(command=command))
        while not (desk.path / "pid").exists():
            await anyio.lowlevel.checkpoint()
        pid = int((desk.path / "pid").read_text())
        tasks.cancel_scope.cancel()
    await desk.until_gone(pid)
    assert structured(await desk.call(action="list"))["processes"] == []
    assert list((desk.own / "processes").iterdir()) == []


async def test_a_check_that_was_handed_over_has_neither_passed_nor_failed(hasty) -> None:
    hasty.program("pytest", "#!/bin/sh\nsleep 60\n")
    _, envelope = await hasty.bash("pytest")
    assert envelope["verification"]["passed"] is None
    assert "failure_summary" not in envelope["verification"]
    assert envelope["verification"]["repeat_guard"] == {"previous_failed_runs": 0}


async def test_input_reaches_a_background_command_and_comes_back(desk) -> None:
    process_id = structured(await desk.call(command="cat", run_in_background=True))["id"]
    result = await desk.call(action="write", process_id=process_id, input="héllo\n")
    assert result.text == f"Wrote 7 bytes to {process_id}."
    assert structured(result)["bytes_written"] == 7
    read = await desk.call(
        action="read", process_id=process_id, offset_bytes=0, max_bytes=100, wait_ms=10_000
    )
    assert "héllo" in structured(read)["output"]
    assert re.search(r"\(bytes 0 to \d+ of \d+; next offset_bytes: \d+\)$", read.text)
    stopped = await desk.call(action="stop", process_id=process_id)
    assert stopped.text == f"{process_id}: stopped on request"
    again = await desk.call(action="stop", process_id=process_id)
    assert structured(again)["process"] == structured(stopped)["process"]
    with pytest.raises(InvalidArguments, match="ended"):
        await desk.call(action="write", process_id=process_id, input="x\n")


async def test_an_exit_ends_a_waiting_read_and_reading_it_counts_as_delivery(desk) -> None:
    process_id = structured(await desk.call(command="read line", run_in_background=True))["id"]
    async with anyio.create_task_group() as tasks:
        found: list[ToolResult] = []

        async def wait() -> None:
            found.append(
                await desk.call(
                    action="read", process_id=process_id, offset_bytes=50_000, wait_ms=400_000
                )
            )

        tasks.start_soon(wait)
        # A long wait holds nobody else up.
        await desk.call(action="write", process_id=process_id, input="x\n")
    (result,) = found
    assert structured(result)["timed_out"] is False
    end = await read_to_end(desk, process_id)
    assert end["process"]["completion_consumed_by"].startswith("read:")
    assert not desk.processes.completion_pending(
        desk.context(PermissionMode.STANDARD).session, process_id
    )


async def test_a_wait_that_runs_out_is_no_error(desk) -> None:
    process_id = structured(await desk.call(command="sleep 60", run_in_background=True))["id"]
    result = await desk.call(action="read", process_id=process_id, offset_bytes=0, wait_ms=20)
    assert structured(result)["timed_out"] is True
    assert not result.is_error
    assert "(no new output)" in result.text
    assert result.text.startswith(f"{process_id}: running")


async def test_the_list_shows_what_there_is_and_what_is_detached(desk) -> None:
    assert (await desk.call(action="list")).text == "No background processes in this session."
    command = "sleep  60 # password=hunter2"
    started = await desk.call(command=command, run_in_background=True, completion_mode="detached")
    process_id = structured(started)["id"]
    shown = (await desk.call(action="list")).text
    assert shown == f"{process_id}  running  sleep 60 # password=[REDACTED] (detached)"
    updated = await desk.call(action="update", process_id=process_id, completion_mode="resume")
    assert updated.text == f"{process_id}: completion_mode is resume"
    assert "(detached)" not in (await desk.call(action="list")).text


@pytest.mark.parametrize("action", ["read", "write", "stop", "update"])
async def test_an_action_needs_an_id_of_this_session(desk, action: str) -> None:
    more = {"input": "x", "completion_mode": "resume"}
    with pytest.raises(InvalidArguments, match=f"the action {action} needs process_id"):
        await desk.call(action=action, **more)
    with pytest.raises(InvalidArguments, match="No background process of this session"):
        await desk.call(action=action, process_id="proc-00000000", **more)


async def test_what_an_action_lacks_is_named(desk) -> None:
    with pytest.raises(InvalidArguments, match="write needs input"):
        await desk.call(action="write", process_id="proc-00000000")
    with pytest.raises(InvalidArguments, match="update needs completion_mode"):
        await desk.call(action="update", process_id="proc-00000000")
    with pytest.raises(InvalidArguments, match="completion_mode"):
        await desk.call(command="true", completion_mode="sometimes")


async def test_an_offset_below_zero_is_an_error_and_one_past_the_end_is_empty(desk) -> None:
    process_id = structured(await desk.call(command="echo hi", run_in_background=True))["id"]
    await read_to_end(desk, process_id)
    with pytest.raises(InvalidArguments, match="below zero"):
        await desk.call(action="read", process_id=process_id, offset_bytes=-1)
    found = structured(await desk.call(action="read", process_id=process_id, offset_bytes=10**12))
    assert found["output"] == ""
    assert found["start_offset"] == found["end_offset"] == found["total_bytes"]


async def test_arguments_of_other_actions_are_ignored(desk) -> None:
    text, _ = await desk.bash("echo hi", process_id="proc-x", input="y", offset_bytes=-5)
    assert text == "hi"


async def test_read_only_starts_only_what_reads_and_acts_only_on_what_it_started(desk) -> None:
    mode = PermissionMode.READ_ONLY
    with pytest.raises(Refused, match="read_only"):
        await desk.call(mode=mode, command="touch made", run_in_background=True)
    process_id = structured(await desk.call(command="cat > made", run_in_background=True))["id"]
    for action in ("write", "stop", "update"):
        with pytest.raises(Refused, match="runs with more rights"):
            await desk.call(
                mode=mode,
                action=action,
                process_id=process_id,
                input="x\n",
                completion_mode="resume",
            )
    assert (await desk.call(mode=mode, action="list")).text.startswith(process_id)
    own = await desk.call(mode=mode, command="tail -f /dev/null", run_in_background=True)
    stopped = await desk.call(mode=mode, action="stop", process_id=structured(own)["id"])
    assert "stopped on request" in stopped.text


async def test_a_denied_write_in_the_background_is_told(desk) -> None:
    target = desk.outside / "stolen"
    started = await desk.call(command=f"echo x > {target}", run_in_background=True)
    end = await read_to_end(desk, structured(started)["id"])
    assert end["process"]["sandbox_denied"] is True
    assert not target.exists()


async def test_a_token_is_raw_in_the_log_and_masked_in_what_is_returned(desk) -> None:
    secret = "ghp_" + "a1B2" * 9
    started = await desk.call(command=f"echo token={secret}", run_in_background=True)
    end = await read_to_end(desk, structured(started)["id"])
    assert secret not in repr(end)
    assert secret not in repr(structured(started))
    log = desk.own / "logs" / f"{end['process']['id']}.log"
    assert str(log) == end["process"]["log_path"]
    assert secret.encode() in log.read_bytes()
    assert log.stat().st_mode & 0o777 == 0o600


async def test_without_a_session_that_owns_them_nothing_runs_in_the_background(desk) -> None:
    context = msgspec.structs.replace(desk.context(PermissionMode.STANDARD), find_processes=None)
    desk.context = lambda _mode=None: context
    with pytest.raises(InvalidArguments, match="need a session that owns them"):
        await desk.call(command="touch made", run_in_background=True)
    with pytest.raises(InvalidArguments, match="need a session that owns them"):
        await desk.call(action="list")
    assert not (desk.path / "made").exists()


async def test_two_floods_after_a_hand_over_are_counted_to_the_last_byte(hasty) -> None:
    flood = "yes {word} | head -c 20000000"
    command = (
        f"until test -e go; do sleep 0.01; done; {flood.format(word='out')} & "
        f"{flood.format(word='err')} >&2; wait"
    )
    _, envelope = await hasty.bash(command)
    (hasty.path / "go").touch()
    arguments = {"action": "read", "process_id": envelope["promoted_process_id"]}
    status = "running"
    while status not in {"stopped", "failed"}:
        found = structured(
            await hasty.call(**arguments, offset_bytes=50_000_000, max_bytes=10, wait_ms=10_000)
        )
        status = found["status"]
    assert found["total_bytes"] == 40_000_000
    assert found["process"]["log_base_offset"] == 40_000_000 - 8 * 1024 * 1024
    log = hasty.own / "logs" / f"{arguments['process_id']}.log"
    assert log.stat().st_size == 8 * 1024 * 1024
