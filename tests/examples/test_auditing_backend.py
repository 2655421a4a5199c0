"""The example that delegates to a real worker and writes every call down, behind a real host."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

import moorage
from moorage.errors import BackendUnavailable, Refused, WorkerFailure

Open = Callable[..., AbstractAsyncContextManager[moorage.Session]]

WORKER = str(Path(sys.executable).parent / "moorage-worker")


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.ndjson"


@pytest.fixture
def open_audited(open_example: Any, example: Callable[[str], str], audit: Path) -> Open:
    program = example("auditing_backend/backend.py")
    usual = (WORKER, "--state={state}/worker")

    def make(*peer: str, **options: Any) -> AbstractAsyncContextManager[moorage.Session]:
        return open_example(sys.executable, program, str(audit), *(peer or usual), **options)

    return make


def lines(audit: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in audit.read_text().splitlines()]


@pytest.mark.needs("landlock")
async def test_the_peer_does_the_work_and_every_call_is_written_down_before_and_after(
    open_audited: Open, audit: Path, workspace: Path
) -> None:
    async with open_audited() as session:
        await session.write_file("a.txt", "hello\n")
        ran = await session.run("cat a.txt; exit 3")
        assert (ran.stdout, ran.exit_code) == ("hello\n", 3)
        with pytest.raises(Refused):
            await session.write_file("../out", "x")
        await session.write_bytes("b.bin", bytes(3_000_000))
        assert len(await session.read_bytes("b.bin")) == 3_000_000
    assert text_of(workspace / "a.txt") == "hello\n"
    told = [(line["event"], line.get("tool"), line.get("outcome")) for line in lines(audit)]
    assert told == [
        ("asked", "write_file", None),
        ("answered", "write_file", "done"),
        ("asked", "bash", None),
        ("answered", "bash", "done"),
        ("asked", "write_file", None),
        ("answered", "write_file", "refused"),
    ]
    assert {line["session"] for line in lines(audit)} == {session.id}


def is_there(path: Path) -> bool:
    return path.exists()


def text_of(file: Path) -> str:
    return file.read_text()


@pytest.mark.needs("landlock")
async def test_background_processes_and_their_events_pass_and_end_with_the_session(
    open_audited: Open, audit: Path, workspace: Path
) -> None:
    async with open_audited() as session, session.events() as events:
        record = await session.processes.start("echo up; read line; echo $line", tty=False)
        assert (await session.processes.find(record.operation_id)) is not None
        event = await events.receive()
        assert event.process.id == record.id
        await session.processes.write(record.id, "down\n")
        text = "".join([window.output async for window in session.processes.follow(record.id)])
        assert text == "up\ndown\n"
        staying = await session.processes.start("sleep 600", tty=False)
    assert not is_there(Path(f"/proc/{staying.pid}"))
    assert [line["event"] for line in lines(audit)] == ["start", "start"]


@pytest.mark.needs("landlock")
async def test_a_cancelled_command_is_ended_at_the_peer_and_the_session_goes_on(
    open_audited: Open, audit: Path, workspace: Path
) -> None:
    async with open_audited() as session:
        await session.run("mkfifo pid")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "echo $$ > pid; exec sleep 600")
            pid = int(await anyio.Path(workspace / "pid").read_text())
            process = os.pidfd_open(pid)
            tasks.cancel_scope.cancel()
        await anyio.wait_readable(process)
        os.close(process)
        assert (await session.run("echo on")).stdout == "on\n"
    # A call that nobody waits for any more may be answered after a later one.
    outcomes = [line["outcome"] for line in lines(audit) if line["event"] == "answered"]
    assert sorted(outcomes) == ["cancelled", "done", "done"]


async def test_a_missing_or_silent_peer_fails_the_session_and_nothing_takes_its_place(
    open_audited: Open, workspace: Path
) -> None:
    async with open_audited("/nowhere/peer") as session:
        with pytest.raises(BackendUnavailable, match="/nowhere/peer"):
            await session.list_files()
    async with open_audited(sys.executable, "-c", "raise SystemExit(9)") as session:
        with pytest.raises(WorkerFailure, match="exited with 9"):
            await session.list_files()
    assert not is_there(workspace)
