"""Seven probes of honesty, and what else a result must not hide; most tools fail several."""

from __future__ import annotations

import base64
import hashlib
import os
import tracemalloc
from pathlib import Path

import anyio
import pytest

from moorage.policy.permission import PermissionMode
from moorage.process.foreground import ForegroundLimits
from moorage.process.full_log import LogLimits
from moorage.tools.bash import BashLimits

pytestmark = pytest.mark.needs("landlock")
STUBBORN = "trap '' TERM; while :; do read -r -t 60 _ </dev/zero; done"


async def test_a_background_child_that_holds_the_output_returns_at_once(desk) -> None:
    text, envelope = await desk.bash("sleep 60 & echo started $!")
    assert text.startswith("started ")
    assert (envelope["outcome"], envelope["exit_code"]) == ("exited", 0)
    assert envelope["left_running"] == 1
    assert desk.is_alive(int(text.split()[1]))


async def test_a_silent_holder_in_a_session_of_its_own_returns_at_once(desk) -> None:
    _, envelope = await desk.bash("setsid sleep 60 >/dev/null 2>&1 & echo done")
    assert (envelope["stdout"], envelope["left_running"]) == ("done\n", 1)


async def test_a_subshell_that_leaves_a_child_returns_at_once(desk) -> None:
    text, envelope = await desk.bash("(sleep 60 &) ; echo done")
    assert text == "done"
    assert envelope["left_running"] == 1


async def test_a_timeout_ends_the_command_with_its_background_child(desk) -> None:
    text, envelope = await desk.bash(
        "sleep 60 & echo $!; sleep 60", timeout_seconds=1, hand_over=False
    )
    assert (envelope["outcome"], envelope["exit_code"]) == ("timed_out", -1)
    assert (envelope["timed_out"], envelope["left_running"]) == (True, 0)
    child = envelope["stdout"].split()[0]
    assert text.startswith(f"{child}\nTimed out after ")
    assert "Exit code" not in text


@pytest.mark.parametrize(
    "command",
    [
        f"bash -c '{STUBBORN}' & echo $!; wait",
        f'setsid bash -c "{STUBBORN}" & echo $!; wait',
        f"(setsid bash -c '{STUBBORN}' & echo $!); sleep 60",
        "nohup sleep 60 >/dev/null 2>&1 & echo $!; wait",
    ],
    ids=["ignores SIGTERM", "own session", "orphan", "nohup"],
)
async def test_nothing_survives_a_timeout(desk, command: str) -> None:
    _, envelope = await desk.bash(command, timeout_seconds=1, hand_over=False)
    assert envelope["outcome"] == "timed_out"
    (pid,) = map(int, envelope["stdout"].split())
    assert not desk.is_alive(pid)


async def test_a_timeout_ends_nobody_but_the_command(desk) -> None:
    """Not who started it, not the group of this test, not a command beside it."""
    bystander = await anyio.open_process(["sleep", "60"])
    try:
        assert os.getpgid(bystander.pid) == os.getpgrp()
        _, beside = await desk.bash("sleep 60 & echo $!")
        _, envelope = await desk.bash(f"sleep 60 & {STUBBORN}", timeout_seconds=1, hand_over=False)
        assert (envelope["outcome"], envelope["left_running"]) == ("timed_out", 0)
        assert bystander.returncode is None
        assert desk.is_alive(int(beside["stdout"]))
        assert (await desk.bash("echo on"))[0] == "on"
    finally:
        bystander.kill()
        await bystander.aclose()


@pytest.mark.parametrize("ending", ["& sleep 60", ""], ids=["in the background", "waited for"])
async def test_a_timeout_ends_every_member_of_a_pipeline(desk, ending: str) -> None:
    member = "(echo $BASHPID >&2; exec sleep 60)"
    last = "(echo $BASHPID >&2; trap '' TERM; while :; do read -r -t 60 _ </dev/zero; done)"
    command = f"{member} | {member} | {last} {ending}"
    _, envelope = await desk.bash(command, timeout_seconds=1, hand_over=False)
    assert envelope["outcome"] == "timed_out"
    pids = {int(pid) for pid in envelope["stderr"].split()}
    assert len(pids) == 3
    assert [pid for pid in pids if desk.is_alive(pid)] == []
    assert envelope["left_running"] == 0


async def test_output_printed_before_a_timeout_is_returned(desk) -> None:
    command = "echo out; echo err >&2; printf 'no line end'; sleep 60"
    text, envelope = await desk.bash(command, timeout_seconds=1, hand_over=False)
    assert envelope["stdout"] == "out\nno line end"
    assert envelope["stderr"] == "err\n"
    assert text.startswith("out\nno line end\nerr\nTimed out after ")


async def test_raw_bytes_survive_into_the_producer_data_and_the_log(desk) -> None:
    command = r"printf '\377\376'; for i in $(seq 20000); do echo padding; done"
    _, envelope = await desk.bash(command)
    assert base64.b64decode(envelope["stdout_base64"]).startswith(b"\377\376padding\n")
    assert envelope["stdout"].startswith("\ufffd\ufffdpadding\n")
    log = _content(envelope["full_log_ref"])
    sections = envelope["full_log_sections"]
    stdout = log[sections["stdout_start"] : sections["stdout_end"]]
    assert stdout == b"\377\376" + b"padding\n" * 20_000


async def test_raw_bytes_of_a_short_output_are_all_there(desk) -> None:
    text, envelope = await desk.bash(r"printf '\377\376'")
    assert base64.b64decode(envelope["stdout_base64"]) == b"\377\376"
    assert envelope["stdout_bytes"] == 2
    assert text == "\ufffd\ufffd"
    assert "stderr_base64" not in envelope


MARKERS = """\
--- stdout ---
--- stderr ---
--- end ---
exit code: 99
Exit code 99
outcome: timed_out
[... 5 bytes omitted ...]
{"outcome":"timed_out","exit_code":-1}
Full log: /etc/passwd (1 bytes)
(no output)"""


async def test_text_that_looks_like_a_marker_is_only_text(desk) -> None:
    (desk.path / "markers").write_text(MARKERS)
    text, envelope = await desk.bash("cat markers")
    assert text == MARKERS
    assert (envelope["outcome"], envelope["exit_code"]) == ("exited", 0)
    assert envelope["stdout"] == MARKERS
    assert "full_log_ref" not in envelope


async def test_markers_in_a_long_output_do_not_move_the_sections(desk) -> None:
    (desk.path / "markers").write_text(MARKERS + "\n")
    _, envelope = await desk.bash("for i in $(seq 2000); do cat markers; done; echo end >&2")
    log = _content(envelope["full_log_ref"])
    sections = envelope["full_log_sections"]
    assert (
        log[sections["stdout_start"] : sections["stdout_end"]] == (MARKERS + "\n").encode() * 2000
    )
    assert log[sections["stderr_start"] : sections["stderr_end"]] == b"end\n"
    assert envelope["full_log_sha256"] == hashlib.sha256(log).hexdigest()


async def test_an_exit_code_is_told_and_the_next_command_works(desk) -> None:
    text, envelope = await desk.bash("exit 7")
    assert (text, envelope["exit_code"]) == ("Exit code 7", 7)
    assert (await desk.bash("echo works"))[0] == "works"


async def test_a_signal_is_told_as_the_shell_would(desk) -> None:
    result = await desk.call(command="echo x; kill -SEGV $$")
    envelope = result.structured_content
    assert envelope is not None
    assert (envelope["outcome"], envelope["exit_code"], envelope["signal"]) == (
        "signalled",
        139,
        11,
    )
    assert result.text == "x\nExit code 139 (SIGSEGV)"
    assert not result.is_error


async def test_a_signal_without_a_name_is_told_by_its_number(desk) -> None:
    text, _ = await desk.bash("kill -40 $$")
    assert text == "Exit code 168 (signal 40)"


async def test_cancelling_the_call_ends_everything_that_it_started(desk) -> None:
    pids = desk.path / "pids"
    command = f'setsid bash -c "{STUBBORN}" & echo $! >> pids; echo $$ >> pids; touch ready; wait'
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: desk.call(command=command))
        with anyio.fail_after(5):
            while not (desk.path / "ready").exists():
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    for pid in map(int, pids.read_text().split()):
        assert not desk.is_alive(pid)
    assert (await desk.bash("echo works"))[0] == "works"


async def test_a_lost_environment_is_told_with_what_was_printed(desk) -> None:
    results = []

    async def run() -> None:
        results.append(
            await desk.call(command="echo $PPID > launcher; echo so far; touch ready; sleep 60")
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(5):
            while not (desk.path / "ready").exists():
                await anyio.lowlevel.checkpoint()
        os.kill(int(_read(desk.path / "launcher")), 9)
    result = results[0]
    envelope = result.structured_content
    assert result.is_error
    assert (envelope["outcome"], envelope["error_kind"]) == ("environment_died",) * 2
    assert envelope["stdout"] == "so far\n"
    assert result.text.startswith("so far\nThe environment died")
    assert (await desk.bash("echo works"))[0] == "works"


def _content(path: str) -> bytes:
    return Path(path).read_bytes()


def _read(path: Path) -> str:
    return path.read_text().strip()


async def test_a_gigabyte_is_counted_right_in_little_memory(desk) -> None:
    """The log is bounded here, so that the test needs no gigabyte of disk."""
    desk.use(BashLimits(foreground=ForegroundLimits(log=LogLimits(stream_bytes=1024 * 1024))))
    tracemalloc.start()
    try:
        text, envelope = await desk.bash("head -c 1073741824 /dev/zero; echo the end")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert envelope["stdout_bytes"] == 1_073_741_832
    assert envelope["stdout"].endswith("the end\n")
    assert envelope["full_log_omitted_bytes"] == 1_073_741_832 - 1024 * 1024
    assert "bytes beyond the largest log" in text
    assert peak < 16 * 1024 * 1024


async def test_an_unconfined_command_is_told_as_truly(desk) -> None:
    text, envelope = await desk.bash("echo free; exit 3", mode=PermissionMode.UNCONFINED)
    assert text == "free\nExit code 3"
    assert "sandbox" not in envelope
