"""A session over a real worker: its calls, what is recorded, and what a lost worker means."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import psutil
import pytest

import moorage
from moorage.app.home import find_home
from moorage.app.sessions import read_record
from moorage.errors import NotFound

Opener = Callable[..., AbstractAsyncContextManager[moorage.Session]]


def worker_of_this_test() -> psutil.Process:
    """Return the worker that this very process started; the nursery is its child."""
    return next(child for child in psutil.Process().children() if is_worker(child))


def is_worker(process: psutil.Process) -> bool:
    try:
        return "moorage.worker" in str(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return False


async def test_a_file_goes_through_write_read_edit_and_list(session: moorage.Session) -> None:
    made = await session.write_file("src/a.py", "x = 1\n")
    assert (made.action, made.path) == ("create", "src/a.py")
    changed = await session.edit_file("src/a.py", "1", "2")
    assert (changed.action, changed.replacements) == ("edit", 1)
    assert changed.old_sha256 == made.new_sha256
    assert (await session.read_file("src/a.py")).text == "x = 2\n"
    assert "a.py" in (await session.list_files("src")).text
    assert "src/a.py" in (await session.glob("**/*.py")).text
    assert "x = 2" in (await session.grep("x = ")).text


async def test_a_command_runs_in_the_workspace_and_tells_how_it_ended(
    session: moorage.Session, workspace: Path
) -> None:
    ended = await session.run("pwd; echo oops >&2; exit 7")
    assert (ended.outcome, ended.exit_code) == ("exited", 7)
    assert (ended.stdout, ended.stderr) == (f"{workspace}\n", "oops\n")
    assert (ended.stdout_bytes, ended.stderr_bytes) == (len(str(workspace)) + 1, 5)
    assert (await session.run(["printf", "%s", "a b; c"])).stdout == "a b; c"


async def test_input_of_any_size_reaches_the_command(session: moorage.Session) -> None:
    data = bytes(range(256)) * 12_000
    counted = await session.run("wc -c", input=data)
    assert counted.stdout.strip() == str(len(data))
    assert (await session.run("cat", input=b"\xff\xfe")).stdout_data == b"\xff\xfe"
    assert (await session.run("cat")).stdout_bytes == 0


async def test_bytes_travel_whole_and_replace_the_file_at_once(
    session: moorage.Session, workspace: Path
) -> None:
    data = os.urandom(2_500_000)
    await session.write_bytes("big.bin", data)
    assert (workspace / "big.bin").read_bytes() == data
    assert await session.read_bytes("big.bin") == data
    await session.write_bytes("empty", b"")
    assert await session.read_bytes("empty") == b""


async def test_an_artifact_is_copied_home_and_does_not_change_with_its_source(
    session: moorage.Session, workspace: Path, home: Path
) -> None:
    (workspace / "report.txt").write_text("first")
    artifact = await session.present_artifact("report.txt")
    (workspace / "report.txt").write_text("second")
    assert artifact.path.read_text() == "first"
    assert artifact.path.is_relative_to(home)
    again = await session.present_artifact("report.txt")
    assert again.path != artifact.path
    assert (again.name, again.path.read_text(), again.size_bytes) == ("report.txt", "second", 6)


@pytest.mark.needs("landlock")
async def test_nothing_outside_the_workspace_can_be_written(
    session: moorage.Session, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    ended = await session.run(f"echo x > {outside}")
    assert ended.exit_code != 0
    assert ended.envelope["sandbox"]["denied"]
    assert not outside.exists()
    with pytest.raises(moorage.Refused) as caught:
        await session.write_file(str(outside), "x")
    assert caught.value.reason == "boundary_denied"
    denial = (await session.call("bash", {"command": f"echo x > {outside}"})).text
    assert "--writable" in denial
    assert "mode" in denial


@pytest.mark.needs("landlock")
async def test_the_home_of_moorage_cannot_be_read_by_a_command(
    session: moorage.Session, home: Path
) -> None:
    ended = await session.run(f"cat {home}/state/sessions/*/selection.json; ls -R {home}/state")
    assert str(session.workspace) not in ended.stdout
    with pytest.raises(moorage.Refused):
        await session.read_file(f"{home}/state/sessions/{session.id}/selection.json")


@pytest.mark.needs("landlock")
async def test_a_granted_folder_can_be_written_and_the_mode_can_be_changed(
    session: moorage.Session, tmp_path: Path
) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    await session.grant(writable_roots=[granted])
    assert (await session.run(f"echo x > {granted}/a")).exit_code == 0
    await session.grant(mode="read_only")
    with pytest.raises(moorage.Refused):
        await session.write_file("a.txt", "x")
    assert (await session.run("cat /dev/null")).exit_code == 0
    await session.grant(mode="unconfined")
    assert (await session.run(f"echo x > {tmp_path}/free")).exit_code == 0
    with pytest.raises(moorage.ConfigError):
        await session.grant(mode="root")


async def test_a_worker_refuses_a_mode_above_the_one_it_was_started_with(
    session: moorage.Session,
) -> None:
    connection = await session._environment.connection()
    call = moorage.protocol.tool_calls.ToolCall(name="read_file", arguments='{"path": "a"}')
    request = moorage.protocol.tool_calls.ExecuteRequest(
        call=call, actor="x", permission_mode="unconfined"
    )
    with pytest.raises(moorage.Refused, match="wider than standard"):
        await connection.request("execute", request, moorage.ToolResult)


async def test_every_edit_and_write_gives_one_event(session: moorage.Session) -> None:
    async with session.events() as events:
        await session.write_file("a.txt", "one\n")
        await session.edit_file("a.txt", "one", "two")
        with pytest.raises(moorage.ToolFailed):
            await session.edit_file("a.txt", "absent", "x")
        await session.read_file("a.txt")
        first, second = await events.receive(), await events.receive()
        assert events.statistics().current_buffer_used == 0
    assert (first.sequence, second.sequence) == (1, 2)
    assert (first.change.action, second.change.action) == ("create", "edit")
    assert first.change.new_sha256 == second.change.old_sha256
    assert second.change.diff["hunks"]


async def test_every_call_is_recorded_with_its_envelope(
    session: moorage.Session, home: Path
) -> None:
    await session.run("echo hi", purpose="greet the reader")
    with pytest.raises(moorage.UnknownTool):
        await session.call("apply_patch", {})
    with pytest.raises(moorage.InvalidArguments):
        await session.call("read_file", {"path": 5})
    calls = list(read_record(find_home(home), session.id))
    assert [call.name for call in calls] == ["bash", "apply_patch", "read_file"]
    assert calls[0].purpose == "greet the reader"
    assert calls[0].structured_content["exit_code"] == 0
    assert calls[0].structured_content["outcome"] == "exited"
    assert [call.error_code for call in calls] == ["", "unknown_tool", "invalid_arguments"]
    record = home / "state" / "sessions" / session.id / "record.ndjson"
    assert record.stat().st_mode & 0o777 == 0o600


async def test_a_worker_lost_in_mid_call_leaves_the_outcome_unknown_and_nothing_is_replayed(
    session: moorage.Session, workspace: Path
) -> None:
    await session.run("true")
    worker = worker_of_this_test()
    caught: list[moorage.OutcomeUnknown] = []

    async def call() -> None:
        with pytest.raises(moorage.OutcomeUnknown) as info:
            await session.run("echo once >> count; echo started > flag; echo $$ > pid; sleep 100")
        caught.append(info.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        with anyio.fail_after(10):
            while not (workspace / "flag").exists():
                await anyio.lowlevel.checkpoint()
        worker.send_signal(signal.SIGKILL)
    assert caught[0].result.outcome == "unknown"
    assert (await session.run("cat count")).stdout == "once\n"
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "100"]
    ]


async def test_a_worker_lost_between_calls_is_replaced_by_the_next_call(
    session: moorage.Session,
) -> None:
    await session.run("true")
    worker = worker_of_this_test()
    worker.send_signal(signal.SIGKILL)
    connection = await session._environment.connection()
    with anyio.fail_after(5):
        while connection.failure is None:
            await anyio.lowlevel.checkpoint()
    assert (await session.run("echo back")).stdout == "back\n"


async def test_a_cancelled_call_ends_the_command(session: moorage.Session, workspace: Path) -> None:
    with anyio.move_on_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "echo $$ > pid; sleep 1000")
            while not (workspace / "pid").exists() or not (workspace / "pid").read_text():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    pid = int((workspace / "pid").read_text())
    with anyio.fail_after(10):
        while psutil.pid_exists(pid):
            await anyio.lowlevel.checkpoint()
    assert (await session.run("echo next")).stdout == "next\n"


async def test_calls_overlap(session: moorage.Session, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "read line < pipe; echo $line > got")
        tasks.start_soon(session.run, "echo hello > pipe")
    assert (await session.read_file("got")).text == "hello\n"


async def test_a_saved_session_is_opened_again_by_id_and_by_name(
    open_here: Opener, workspace: Path
) -> None:
    async with open_here(name="build", mode="read_only") as first:
        kept = first.id
    for asked in (kept, "build"):
        async with open_here(session_id=asked, workspace=None) as again:
            assert (again.id, again.mode) == (kept, moorage.PermissionMode.READ_ONLY)
            assert again.workspace == str(workspace)
    with pytest.raises(moorage.ConfigError, match="has the permission mode"):
        async with open_here(session_id=kept, mode="standard"):
            pass
    with pytest.raises(moorage.ConfigError, match="belongs to the environment"):
        async with open_here(environment="other", session_id=kept):
            pass
    with pytest.raises(NotFound):
        async with open_here(session_id="s-unknown"):
            pass


async def test_an_impossible_opening_is_told_before_anything_is_started(
    open_here: Opener, workspace: Path, home: Path, tmp_path: Path
) -> None:
    impossible = [
        ({"workspace": tmp_path / "absent"}, "does not exist"),
        ({"workspace": tmp_path}, "overlap"),
        ({"workspace": home}, "does not exist"),
        ({"mode": "root"}, "unknown permission mode"),
        ({"writable_roots": [tmp_path / "absent"]}, "does not exist"),
        ({"writable_roots": ["/"]}, "overlap"),
    ]
    for options, message in impossible:
        with pytest.raises(moorage.ConfigError, match=message):
            async with open_here(**options):
                pass
    with pytest.raises(NotFound, match="unknown environment"):
        async with moorage.open_session("nowhere", workspace=workspace, home=home):
            pass
    assert not (home / "state" / "sessions").exists()


async def test_the_error_of_the_body_comes_out_as_it_is(open_here: Opener) -> None:
    async def fail() -> None:
        async with open_here() as session:
            await session.run("true")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_nothing_of_a_closed_session_runs_on(open_here: Opener, workspace: Path) -> None:
    async with open_here() as session:
        ended = await session.run("sleep 1000 > /dev/null 2>&1 & echo $!")
        assert ended.left_running == 1
        pid = int(ended.stdout)
    assert not psutil.pid_exists(pid)
    with pytest.raises(moorage.ConnectionLost, match="closed"):
        await session.run("true")


@pytest.mark.needs("landlock")
async def test_a_lost_launcher_gives_what_was_printed_and_the_next_call_works(
    session: moorage.Session,
) -> None:
    with pytest.raises(moorage.EnvironmentDied) as caught:
        await session.run("echo before; sleep 0.2; kill -9 $PPID; sleep 100")
    died = caught.value.result
    assert (died.outcome, died.exit_code, died.stdout) == ("environment_died", -1, "before\n")
    assert (await session.run("echo next")).stdout == "next\n"
    assert (await session.call("bash", {"command": "kill -9 $PPID; sleep 100"})).is_error


async def test_text_that_is_no_unicode_is_an_argument_error_and_nothing_runs(
    session: moorage.Session, workspace: Path
) -> None:
    with pytest.raises(moorage.InvalidArguments, match="not valid Unicode"):
        await session.run("touch made; echo \ud800")
    with pytest.raises(moorage.InvalidArguments, match="no JSON"):
        await session.call("read_file", {"path": object()})
    with pytest.raises(moorage.ExecutionError):
        await session.write_bytes("\ud800", b"x")
    assert not (workspace / "made").exists()


async def test_bytes_that_were_written_are_announced_and_can_be_read_in_pieces(
    session: moorage.Session,
) -> None:
    data = b"x" * 2_500_000
    async with session.events() as events:
        await session.write_bytes("big", data)
        event = await events.receive()
    assert (event.change.path, event.change.new_sha256[:7]) == ("big", "sha256:")
    pieces = [piece async for piece in session.read_pieces("big")]
    assert len(pieces) == 3
    assert b"".join(pieces) == data


async def test_calls_of_every_opening_have_ids_of_their_own(open_here: Opener, home: Path) -> None:
    async with open_here() as session:
        await session.call("glob", {"pattern": "*"})
        kept = session.id
    async with open_here(session_id=kept, workspace=None) as session:
        await session.call("glob", {"pattern": "*"})
    calls = list(read_record(find_home(home), kept))
    assert len({call.call_id for call in calls}) == 2
    assert [call.audit.kind for call in calls] == ["read", "read"]


def open_to_others(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.stat().st_mode & 0o077] + [
        path for path in (home,) if path.stat().st_mode & 0o022
    ]


async def test_nothing_of_the_home_is_open_to_others_even_without_a_umask(
    open_here: Opener, home: Path
) -> None:
    before = os.umask(0)
    try:
        (home / "state" / "sessions").mkdir(parents=True)
        with anyio.fail_after(50):
            async with open_here() as opened:
                await opened.write_file("a.txt", "x")
                await opened.run("yes | head -c 300000")
                await opened.present_artifact("a.txt")
    finally:
        os.umask(before)
    assert open_to_others(home) == []
