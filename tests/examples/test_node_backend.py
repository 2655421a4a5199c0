"""The example in plain Node.js, behind a real host: the wire is the contract."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

import moorage
from moorage.errors import (
    InvalidArguments,
    OutcomeUnknown,
    ProtocolMismatch,
    Refused,
    ToolFailed,
    UnknownTool,
)

Open = Callable[..., AbstractAsyncContextManager[moorage.Session]]

pytestmark = pytest.mark.needs("node")


@pytest.fixture
def open_node(open_example: Any, example: Callable[[str], str]) -> Open:
    program = example("node_backend/backend.mjs")
    return lambda **options: open_example("node", program, **options)


async def test_files_are_written_read_and_listed(open_node: Open, workspace: Path) -> None:
    async with open_node() as session:
        created = await session.write_file("src/ü.txt", "eins\nzwei\n")
        assert (created.action, created.path) == ("create", "src/ü.txt")
        read = await session.read_file("src/ü.txt", offset=2)
        assert (read.text, read.start_line, read.total_lines) == ("zwei\n", 2, 2)
        again = await session.write_file("src/ü.txt", "drei\n")
        assert (again.action, again.old_sha256) == ("overwrite", created.new_sha256)
        listing = (await session.list_files("src")).structured_content
        assert listing is not None
        assert [entry["path"] for entry in listing["entries"]] == ["src/ü.txt"]
        with pytest.raises(ToolFailed, match="exists"):
            await session.write_file("src/ü.txt", "vier\n", create_only=True)
        with pytest.raises(ToolFailed, match="no file"):
            await session.read_file("nowhere")
        with pytest.raises(UnknownTool):
            await session.grep("eins")
    assert [path.name for path in files_below(workspace)] == ["ü.txt"]


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def lay_traps(workspace: Path, outside: Path) -> None:
    workspace.mkdir()
    (workspace / "link").symlink_to(outside)
    (workspace / "new").symlink_to(outside / "not-there")


async def test_paths_and_links_that_lead_out_are_refused(
    open_node: Open, workspace: Path, tmp_path: Path
) -> None:
    lay_traps(workspace, tmp_path)
    async with open_node() as session:
        for path in ("../x", f"{tmp_path}/x", "link/x", "new"):
            with pytest.raises(Refused):
                await session.write_file(path, "x")
    assert not {"x", "not-there"} & {path.name for path in files_below(tmp_path)}


@pytest.mark.parametrize("mode", ["standard", "read_only"])
async def test_commands_and_starts_are_refused_in_confined_modes_without_effect(
    open_node: Open, mode: str, workspace: Path
) -> None:
    async with open_node(mode=mode) as session:
        with pytest.raises(Refused, match="cannot confine commands"):
            await session.run("touch ran")
        with pytest.raises(Refused, match="cannot confine commands"):
            await session.processes.start("touch ran", tty=False)
        assert await session.processes.list() == ()
    assert files_below(workspace) == []


async def test_unconfined_commands_get_the_forwarded_variables_and_not_the_adapters(
    open_node: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED", "yes")
    async with open_node(mode="unconfined", forward_env=["FORWARDED"]) as session:
        ran = await session.run("echo out; echo err >&2; exit 3")
        assert (ran.stdout, ran.stderr, ran.exit_code) == ("out\n", "err\n", 3)
        assert ran.outcome == "exited"
        names = {line.split("=")[0] for line in (await session.run("env")).stdout.splitlines()}
        assert "FORWARDED" in names
        assert not {name for name in names if "EXECUTION" in name}
        assert (await session.run("exec 2>&1; sleep 600", timeout_seconds=1)).outcome == "timed_out"


async def test_a_process_is_started_told_of_read_in_windows_written_and_ends_with_its_code(
    open_node: Open,
) -> None:
    async with open_node(mode="unconfined") as session, session.events() as events:
        record = await session.processes.start(
            "printf 'zäh\\n'; read line; echo got $line; exit 3", tty=False, operation_id="mine"
        )
        assert (record.operation_id, record.root_thread_id) == ("mine", session.id)
        assert (await events.receive()).type == "started"
        first = await session.processes.read(record.id, offset=0, wait_seconds=20)
        assert first.output == "zäh\n"
        assert (first.start_offset, first.end_offset, first.total_bytes) == (0, 5, 5)
        await session.processes.write(record.id, "it\n")
        rest = [w async for w in session.processes.follow(record.id, offset=first.end_offset)]
        assert "".join(window.output for window in rest) == "got it\n"
        ended = rest[-1].process
        assert (ended.status, ended.exit_code, ended.terminal_cause) == (
            "failed",
            3,
            "natural_exit",
        )
        event = await events.receive()
        assert (event.type, event.cause) == ("failed", "natural_exit")


async def test_a_stop_ends_the_whole_group_and_is_idempotent(open_node: Open) -> None:
    async with open_node(mode="unconfined") as session:
        command = "trap '' TERM; sleep 600 & echo $!; wait"
        record = await session.processes.start(command, tty=False)
        window = await session.processes.read(record.id, offset=0, wait_seconds=20)
        stopped = await session.processes.stop(record.id)
        assert (stopped.status, stopped.terminal_cause) == ("stopped", "requested_stop")
        assert is_gone(int(window.output))
        assert await session.processes.stop(record.id) == stopped
        with pytest.raises(InvalidArguments, match="no process of this session"):
            await session.processes.stop("proc-00000000")


def is_gone(pid: int) -> bool:
    """Return whether the process has ended, reaped or not."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


async def test_processes_end_with_the_session_and_their_records_stay_for_the_next_one(
    open_node: Open,
) -> None:
    async with open_node(mode="unconfined") as session:
        done = await session.processes.start("echo done", tty=False, operation_id="done")
        async for _ in session.processes.follow(done.id):
            pass
        staying = await session.processes.start("sleep 600", tty=False, operation_id="staying")
        session_id = session.id
    assert is_gone(staying.pid)
    async with open_node(session_id=session_id) as session:
        records = await session.processes.list()
        assert [record.operation_id for record in records] == ["done", "staying"]
        assert [record.terminal_cause for record in records] == ["natural_exit", "requested_stop"]
        assert (await session.processes.read(done.id)).output == "done\n"


async def test_a_killed_adapter_leaves_the_call_unknown_and_the_next_finds_and_ends_the_process(
    open_node: Open, workspace: Path
) -> None:
    async with open_node(mode="unconfined") as session:
        record = await session.processes.start(
            "echo $PPID; exec sleep 600", tty=False, operation_id="orphan"
        )
        window = await session.processes.read(record.id, offset=0, wait_seconds=20)
        adapter = int(window.output)
        await session.run("mkfifo pid")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(expect_unknown, session)
            # What a killed adapter ran in the foreground is nobody's; only starts have records.
            foreground = int(await anyio.Path(workspace / "pid").read_text())
            os.kill(adapter, signal.SIGKILL)
        os.kill(foreground, signal.SIGKILL)
        found = await session.processes.find("orphan")
        assert found is not None
        assert (found.status, found.exit_code) == ("failed", -1)
        assert "not seen" in found.last_error
        assert is_gone(record.pid)


async def expect_unknown(session: moorage.Session) -> None:
    with pytest.raises(OutcomeUnknown):
        await session.run("echo $$ > pid; exec sleep 600")


async def test_a_process_that_leaves_its_output_open_does_not_hold_its_end(
    open_node: Open,
) -> None:
    async with open_node(mode="unconfined") as session:
        command = "setsid sleep 20 & echo $!"
        record = await session.processes.start(command, tty=False)
        windows = [window async for window in session.processes.follow(record.id)]
        assert windows[-1].process.status == "stopped"
        os.kill(int(windows[0].output), signal.SIGKILL)


async def test_bytes_and_artifacts_are_not_faked(open_node: Open) -> None:
    async with open_node() as session:
        assert await session.capabilities() == {"process.start.v1"}
        with pytest.raises(ProtocolMismatch):
            await session.write_bytes("a", b"x")
        with pytest.raises(UnknownTool):
            await session.present_artifact("a")


def test_the_program_imports_nothing_but_node(example: Callable[[str], str]) -> None:
    text = Path(example("node_backend/backend.mjs")).read_text()
    imported = [line for line in text.splitlines() if line.startswith("import ")]
    assert imported
    assert all(' from "node:' in line for line in imported), json.dumps(imported)
