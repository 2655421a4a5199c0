from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from moorage.app.home import find_home
from moorage.host.record import CallLog, CallRecord
from moorage.host.session_store import Selection, SessionStore
from moorage.policy.permission import PermissionMode

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
COLUMNS = ["ID", "NAME", "ENVIRONMENT", "MODE", "CALLS", "WORKER", "UPDATED", "WORKSPACE"]
OLD_RECORD = Path(__file__).parent / "fixtures" / "old-record.ndjson"


def keep_session(
    session_id: str,
    *calls: CallRecord,
    minutes: int = 0,
    name: str = "",
    workspace: str = "/project",
) -> Path:
    store = SessionStore(find_home().sessions)
    folder = store.create(
        Selection(
            id=session_id,
            environment="local",
            workspace=workspace,
            mode=PermissionMode.STANDARD,
            created_at=NOON + timedelta(minutes=minutes),
            name=name,
        )
    )
    log = CallLog(folder / "record.ndjson")
    for call in calls:
        log.append(call)
    log.close()
    return folder


def bash_call(**envelope: Any) -> CallRecord:
    return CallRecord(
        call_id="1",
        name="bash",
        actor="a",
        mode="standard",
        started_at=NOON,
        duration_ms=1300,
        structured_content={"action": "run", "outcome": "exited", **envelope},
    )


@pytest.fixture(autouse=True)
def _home(home: Path) -> None:
    """Keep every session of these tests in a home of its own."""


def test_no_sessions_is_said_and_is_no_error(command_line: Any) -> None:
    ended = command_line("session", "list")
    assert (ended.code, ended.out) == (0, b"")
    assert b"no sessions are saved" in ended.err
    assert command_line("session", "list", "--json").document == []


def test_sessions_are_listed_with_the_latest_last(command_line: Any) -> None:
    keep_session("s-2", minutes=1, name="second")
    keep_session("s-1", bash_call())
    lines = command_line("session", "list").out.decode().splitlines()
    assert lines[0].split() == COLUMNS
    assert [line.split()[0] for line in lines[1:]] == ["s-1", "s-2"]
    assert lines[1].endswith("/project")


def test_only_the_latest_are_listed_and_the_rest_is_counted(command_line: Any) -> None:
    for number in range(3):
        keep_session(f"s-{number}", minutes=number)
    ended = command_line("session", "list", "--last", "1")
    assert b"s-2" in ended.out
    assert b"s-1" not in ended.out
    assert b"2 older sessions not shown" in ended.err
    assert len(command_line("session", "list", "--last", "0", "--json").document) == 3


def test_a_session_shows_its_calls(command_line: Any) -> None:
    keep_session("s-1", bash_call(exit_code=1, command="pytest -q", output="1 failed\n"))
    shown = command_line("session", "show", "s-1").out.decode()
    assert "workspace    /project" in shown
    assert "bash  exit 1  1.3 s" in shown
    assert "     $ pytest -q\n     1 failed\n" in shown


def test_a_session_is_found_by_its_name(command_line: Any) -> None:
    keep_session("s-1", name="fix")
    assert b"s-1 fix" in command_line("session", "show", "fix").out


def test_a_session_is_json_with_every_call(command_line: Any) -> None:
    keep_session("s-1", bash_call(exit_code=0))
    document = command_line("session", "show", "s-1", "--json").document
    assert document["session"]["id"] == "s-1"
    assert [call["name"] for call in document["calls"]] == ["bash"]


def test_records_of_tools_that_are_gone_still_display(command_line: Any) -> None:
    folder = keep_session("s-1")
    (folder / "record.ndjson").write_bytes(OLD_RECORD.read_bytes())
    assert OLD_RECORD.read_bytes().count(b"\n") == 5
    ended = command_line("session", "show", "s-1", "--full")
    shown = ended.out.decode()
    assert ended.code == 0
    assert "process  p-41c2  running" in shown
    assert "process  p-41c2  exited" in shown
    assert "listening on 8000" in shown
    assert "apply_patch  src/app.py  patch" in shown
    assert "+ PORT = 8080" in shown
    assert "apply_patch  patch_rejected" in shown
    assert "notes" in shown


@pytest.mark.parametrize(
    "arguments", [("show", "s-9"), ("rm", "s-9"), ("set", "s-9", "-m", "standard")]
)
def test_an_unknown_session_is_127(command_line: Any, arguments: tuple[str, ...]) -> None:
    ended = command_line("session", *arguments)
    assert ended.code == 127
    assert b"no session has the id or name 's-9'" in ended.err


def test_removing_takes_all_of_the_named_or_none(command_line: Any) -> None:
    folder = keep_session("s-1")
    assert command_line("session", "rm", "s-1", "s-9").code == 127
    assert folder.exists()
    assert command_line("session", "rm", "s-1", "--json").document == {
        "removed": ["s-1"],
        "left": [],
    }
    assert not folder.exists()


def test_a_session_whose_selection_is_damaged_can_be_removed(command_line: Any) -> None:
    damaged, logs = keep_session("s-1"), find_home().worker_state / "identity" / "s-1"
    logs.mkdir(parents=True)
    (damaged / "selection.json").write_text("{")
    assert command_line("session", "rm", "s-1", "s-9").code == 127
    assert damaged.exists()
    assert command_line("session", "rm", "s-1").code == 0
    assert not damaged.exists()
    assert not logs.exists()


def test_the_help_of_removing_says_what_goes(command_line: Any) -> None:
    told = " ".join(command_line("session", "rm", "--help").out.decode().split())
    assert "records, artifacts and, of local sessions, full logs" in told


def test_sessions_that_nobody_used_for_long_are_removed_together(command_line: Any) -> None:
    old, new = keep_session("s-old", bash_call()), keep_session("s-new", bash_call())
    month_ago = (datetime.now(UTC) - timedelta(days=31)).timestamp()
    os.utime(old / "record.ndjson", (month_ago, month_ago))
    ended = command_line("session", "rm", "--older-than", "30")
    assert (ended.code, ended.err) == (0, b"moorage: removed 1 session.\n")
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("arguments", [(), ("s-1", "--older-than", "3")])
def test_what_to_remove_is_said_in_exactly_one_way(
    command_line: Any, arguments: tuple[str, ...]
) -> None:
    folder = keep_session("s-1")
    ended = command_line("session", "rm", *arguments)
    assert ended.code == 2
    assert b"Name sessions, or say --older-than DAYS." in ended.err
    assert folder.exists()


def test_the_user_changes_a_sessions_mode_and_adds_a_root(
    command_line: Any, tmp_path: Path
) -> None:
    cache, project = tmp_path / "cache", tmp_path / "project"
    cache.mkdir()
    project.mkdir()
    keep_session("s-1", workspace=str(project))
    arguments = ("session", "set", "s-1", "--mode", "read_only", "--writable", str(cache))
    ended = command_line(*arguments)
    assert ended.code == 0
    assert f"writable  {cache}" in ended.out.decode()
    [saved] = command_line("session", "list", "--json").document
    assert saved["mode"] == "read_only"
    assert saved["writable_roots"] == [str(cache)]
    narrowed = command_line("session", "set", "s-1", "--not-writable", str(cache), "--json")
    assert narrowed.document["writable_roots"] == []
    again = command_line("session", "set", "s-1", "-m", "standard", "--json").document
    assert again["mode"] == "standard"


def test_a_root_that_does_not_exist_is_refused(command_line: Any) -> None:
    keep_session("s-1")
    ended = command_line("session", "set", "s-1", "--writable", "/nowhere/at/all")
    assert ended.code == 125
    assert b"'/nowhere/at/all' does not exist." in ended.err


def test_changing_nothing_is_a_usage_error(command_line: Any) -> None:
    keep_session("s-1")
    ended = command_line("session", "set", "s-1")
    assert ended.code == 2
    assert b"Say what to change: --mode MODE, --writable DIR or --not-writable DIR." in ended.err


def test_a_fork_is_a_new_session_with_the_same_choice(command_line: Any) -> None:
    keep_session("s-1", name="parent")
    ended = command_line("session", "fork", "parent", "--name", "child")
    forked = SessionStore(find_home().sessions).load("child")
    assert ended.out.decode() == f"{forked.id}\n"
    assert (forked.workspace, forked.mode) == ("/project", PermissionMode.STANDARD)
    assert command_line("session", "fork", "parent", "--name", "child").code == 125
    assert command_line("session", "fork", "nobody").code == 127
