"""Background processes as a person starts, sees, follows and ends them from several terminals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
import pytest

from moorage.cli.run import CONSUMER

pytestmark = pytest.mark.needs("landlock")

Start = Callable[..., str]


@pytest.fixture
def start(terminal: Any) -> Start:
    """Start a command in a session, which the first start begins, and return its process."""
    begun: set[str] = set()

    def start_one(line: str, *options: str, session: str = "site") -> str:
        chosen = "--session" if session in begun else "--name"
        begun.add(session)
        ended = terminal("start", chosen, session, *options, "-c", line)
        assert (ended.code, ended.err) == (0, b"")
        return str(ended.out.decode().strip())

    return start_one


def processes(terminal: Any, *options: str) -> list[dict[str, Any]]:
    return list(terminal("ps", "--json", *options).document["processes"])


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_process_is_listed_followed_and_found_again_after_its_end(
    terminal: Any, start: Start
) -> None:
    process = start("echo begun; read line; echo höla $line; exit 3")
    (running,) = processes(terminal)
    assert (running["id"], running["state"], running["exit_code"]) == (process, "running", None)
    assert (running["session_name"], running["tty"]) == ("site", True)
    assert not is_gone(running["pid"])
    table = terminal("ps").out.decode().splitlines()
    assert table[0].split() == ["SESSION", "ID", "STATE", "AGE", "PID", "TTY", "EXIT", "COMMAND"]
    assert table[1].split()[:3] == ["site", process, "running"]

    following = terminal.start("logs", "-f", process)
    arguments = f'{{"action": "write", "process_id": "{process}", "input": "you\\n"}}'
    assert terminal("tool", "bash", "--session", "site", arguments).code == 0
    followed = terminal.wait(following)
    assert (followed.code, followed.err) == (0, b"")
    assert followed.out.decode() == "begun\r\nyou\r\nhöla you\r\n"
    (ended,) = processes(terminal)
    assert (ended["state"], ended["exit_code"], ended["pid"]) == ("failed", 3, None)
    assert ended["total_bytes"] == len(followed.out)
    assert processes(terminal, "--running") == []
    assert terminal("logs", f"site/{process}").out == followed.out


def test_output_is_read_by_offset_by_tail_and_as_json(terminal: Any, start: Start) -> None:
    process = start("printf 0123456789", "--pipes")
    assert terminal("logs", "-f", process).out == b"0123456789"
    assert terminal("logs", "--since-offset", "4", process).out == b"456789"
    assert terminal("logs", "--since-offset", "99", process).out == b""
    assert terminal("logs", "--tail", "3", process).out == b"789"
    assert terminal("logs", "--tail", "0", process).out == b""
    document = terminal("logs", "--json", "--tail", "3", process).document
    assert document["output"] == "789"
    assert (document["start_offset"], document["end_offset"]) == (7, 10)
    assert document["process"]["exit_code"] == 0


def test_what_a_long_log_has_lost_is_said(terminal: Any, start: Start) -> None:
    process = start("head -c 9000000 /dev/zero | tr '\\0' x; echo end", "--pipes")
    assert terminal("logs", "-f", "--tail", "4", process).out.endswith(b"end\n")
    ended = terminal("logs", process)
    kept = 8 * 1024 * 1024
    assert (len(ended.out), ended.out[-5:]) == (kept, b"xend\n")
    assert f"{9_000_004 - kept:,} bytes from 0 on are no longer kept.".encode() in ended.err


def test_a_stop_is_soft_first_and_a_kill_is_not(terminal: Any, start: Start) -> None:
    polite = start("trap 'echo asked; exit 5' TERM; echo ready; while :; do read -t 0.1; done")
    harsh = start("trap 'echo asked; exit 5' TERM; echo ready; while :; do read -t 0.1; done")
    for each in (polite, harsh):
        reading = terminal("tool", "bash", "--session", "site", "action=read", f"process_id={each}")
        assert reading.code == 0
    pids = [each["pid"] for each in processes(terminal)]
    stopped = terminal("stop", polite)
    assert stopped.code == 0
    assert b"was stopped with exit code 5" in stopped.err
    killed = terminal("kill", "--json", f"site/{harsh}").document
    assert [each["exit_code"] for each in killed["processes"]] == [137]
    assert killed["failed"] == []
    assert all(is_gone(pid) for pid in pids)
    again = terminal("stop", polite)
    assert (again.code, b"nothing to do" in again.err) == (0, True)
    assert b"asked" not in terminal("logs", harsh).out


def test_an_unknown_process_is_one_sentence_and_harms_none(terminal: Any, start: Start) -> None:
    process = start("sleep 1000")
    start("sleep 1000", session="other")
    for command in ("logs", "stop", "kill"):
        for name in ("proc-00000000", f"other/{process}"):
            ended = terminal(command, name)
            assert (ended.code, ended.err.count(b"\n")) == (127, 1)
            assert b"there is no process" in ended.err
    mixed = terminal("stop", "--json", "proc-00000000", process)
    assert mixed.code == 127
    assert [each["id"] for each in mixed.document["processes"]] == [process]
    assert [each["error"]["code"] for each in mixed.document["failed"]] == ["not_found"]
    (left,) = processes(terminal, "--running")
    assert left["session_name"] == "other"
    assert terminal("logs", "nowhere/proc-00000000").code == 127


def test_a_session_whose_worker_has_ended_is_asked_only_by_name(
    terminal: Any, start: Start
) -> None:
    process = start("echo once; read line")
    assert terminal("session", "stop", "site").code == 0
    assert processes(terminal) == []
    assert b"no background processes" in terminal("ps").err
    assert terminal("logs", process).code == 127
    assert terminal("logs", f"site/{process}").out == b"once\r\n"
    (found,) = processes(terminal, "--session", "site")
    assert (found["id"], found["state"]) == (process, "stopped")


def test_a_run_can_wait_for_the_background_and_hears_of_each_end_once(
    terminal: Any, start: Start
) -> None:
    failing = start("while [ ! -e go ]; do read -t 0.05; done; exit 4")
    silent = start("sleep 1000", "--detached")
    lasting = start("sleep 1000", "--managed", "--detached")
    arguments = ("run", "--session", "site", "--wait-background")
    first = terminal(*arguments, "-c", "touch go; echo done; exit 6")
    assert (first.code, first.out) == (6, b"done\n")
    assert f"{failing} (".encode() in first.err
    assert b"ended with exit code 4." in first.err
    assert first.err.count(b"\n") == 1
    later = start("exit 0")
    second = terminal(*arguments, "--json", "--", "true").document
    assert [each["id"] for each in second["background"]] == [later]
    assert terminal(*arguments, "--json", "--", "true").document["background"] == []
    assert terminal("kill", silent, lasting).code == 0
    assert CONSUMER == "moorage run"


def test_a_start_needs_a_session_that_stays(terminal: Any) -> None:
    ended = terminal("start", "--", "sleep", "1000")
    assert ended.code == 2
    assert b"--name NAME begins one" in ended.err
    assert terminal("session", "list", "--json").document == []
    assert terminal("start", "--name", "site").code == 2
    assert terminal("start", "--session", "site", "--", "true").code == 127


def test_a_secret_of_a_command_and_of_its_output_is_masked(terminal: Any, start: Start) -> None:
    secret = "sk-" + "a1B2" * 9
    process = start(f"echo {secret}", "--pipes")
    assert secret.encode() not in terminal("logs", "-f", process).out
    assert secret not in processes(terminal)[0]["command"]
    assert secret.encode() not in terminal("stop", process).err
