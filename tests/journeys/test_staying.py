"""A session that stays, as two terminals of one person see it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.needs("landlock")


def worker_of(terminal: Any, session: str) -> int:
    found = terminal("session", "list", "--json").document
    (pid,) = (each["worker_pid"] for each in found if each["id"] == session)
    return int(pid)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_what_runs_in_the_background_goes_on_between_commands(terminal: Any) -> None:
    session = terminal("run", "--json", "--", "true").document["session"]
    begun = terminal("run", "-s", session, "-c", "sleep 1000 & echo $!")
    sleeper = int(begun.out)
    pid = worker_of(terminal, session)
    look = terminal("run", "-s", session, "-c", f"kill -0 {sleeper} && echo alive")
    assert look.out == b"alive\n"
    assert worker_of(terminal, session) == pid
    assert f"process {pid}".encode() in terminal("session", "show", session).out
    ended = terminal("session", "stop", session)
    assert (ended.code, ended.err) == (0, b"moorage: ended 1 worker.\n")
    assert is_gone(pid)
    assert is_gone(sleeper)
    assert terminal("session", "stop", session, "--json").document == {"stopped": []}
    assert b"none runs" in terminal("session", "show", session).out


def test_a_new_name_begins_a_session_that_stays(terminal: Any) -> None:
    begun = terminal("run", "--name", "site", "-c", "sleep 1000 & echo $!")
    look = terminal("run", "--session", "site", "-c", f"kill -0 {int(begun.out)} && echo alive")
    assert look.out == b"alive\n"
    again = terminal("run", "--name", "site", "--", "true")
    assert (again.code, b"exists already" in again.err) == (125, True)
    both = terminal("run", "--name", "other", "--session", "site", "--", "true")
    assert b"--session for a saved session or --name for a new one" in both.err
    assert terminal("session", "rm", "site").code == 0


def test_two_terminals_that_open_a_session_at_once_meet_one_worker(terminal: Any) -> None:
    session = terminal("run", "--json", "--", "true").document["session"]
    both = [terminal.start("run", "-s", session, "-c", "echo $PPID") for _ in range(2)]
    first, second = (terminal.wait(child) for child in both)
    assert (first.code, first.out) == (second.code, second.out)
    assert int(first.out) > 1


def test_a_worker_that_was_killed_is_replaced_by_the_next_command(terminal: Any) -> None:
    session = terminal("run", "--json", "--", "true").document["session"]
    assert terminal("run", "-s", session, "--", "true").code == 0
    pid = worker_of(terminal, session)
    os.kill(pid, signal.SIGKILL)
    again = terminal("run", "-s", session, "--", "echo", "here")
    assert (again.code, again.out) == (0, b"here\n")
    assert worker_of(terminal, session) != pid


def test_a_restarted_session_has_a_new_worker(terminal: Any) -> None:
    session = terminal("run", "--json", "--", "true").document["session"]
    told = terminal("session", "restart", session, "--json").document
    assert told == {"session": session, "was_running": False}
    pid = worker_of(terminal, session)
    ended = terminal("session", "restart", session)
    assert (ended.code, ended.err) == (
        0,
        f"moorage: started a new worker for {session}.\n".encode(),
    )
    assert worker_of(terminal, session) != pid


def test_an_unknown_session_is_no_new_one(terminal: Any) -> None:
    for arguments in (("run", "-s", "mine", "--", "true"), ("session", "stop", "mine")):
        assert terminal(*arguments).code == 127
    assert terminal("session", "restart", "mine").code == 127
    assert terminal("session", "list", "--json").document == []


def test_the_socket_may_lie_deeper_than_its_path_may_be_long(terminal: Any) -> None:
    home = Path(terminal.variables["MOORAGE_HOME"]) / ("deep" * 25)
    home.mkdir(parents=True, mode=0o700)
    terminal.variables["MOORAGE_HOME"] = str(home)
    try:
        session = terminal("run", "--json", "--", "true").document["session"]
        assert terminal("run", "-s", session, "--", "echo", "here").out == b"here\n"
    finally:
        assert terminal("session", "rm", session).code == 0
    assert terminal("session", "list", "--json").document == []
