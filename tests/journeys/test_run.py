from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("landlock")


def test_a_command_works_in_the_project_and_gives_its_exit_code(terminal: Any) -> None:
    (terminal.project / "a.txt").write_text("content\n")
    ended = terminal("run", "-c", "cat a.txt; echo no >&2; pwd > made; exit 7")
    assert (ended.code, ended.out, ended.err) == (7, b"content\n", b"no\n")
    assert (terminal.project / "made").read_text() == f"{terminal.project}\n"


def test_arguments_and_bytes_survive_the_whole_trip(terminal: Any) -> None:
    ended = terminal("run", "--", "printf", r"%s|\377\376|%s", "a  b", "$HOME;'")
    assert ended.out == b"a  b|\xff\xfe|$HOME;'"
    assert ended.err == b""


def test_output_of_any_size_comes_out_whole(terminal: Any) -> None:
    ended = terminal("run", "-c", "seq 1 200000; seq 1 30000 >&2")
    assert ended.out == b"".join(b"%d\n" % number for number in range(1, 200_001))
    assert ended.err == b"".join(b"%d\n" % number for number in range(1, 30_001))
    assert ended.code == 0


def test_a_reader_that_goes_away_ends_the_writing_quietly(terminal: Any) -> None:
    reader, writer = os.pipe()
    child = terminal.start("run", "--", "seq", "1", "100000", stdout=writer)
    os.close(writer)
    assert os.read(reader, 2) == b"1\n"
    os.close(reader)
    ended = terminal.wait(child)
    assert (ended.code, ended.err) == (141, b"")


def test_a_pipe_that_does_not_block_gets_everything(terminal: Any) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    os.set_blocking(reader, True)
    child = terminal.start("run", "--", "seq", "1", "100000", stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        read = pipe.read()
    assert terminal.wait(child).code == 0
    assert read == b"".join(b"%d\n" % number for number in range(1, 100_001))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_sentence(terminal: Any, unbuffered: str) -> None:
    terminal.variables["PYTHONUNBUFFERED"] = unbuffered
    full = os.open("/dev/full", os.O_WRONLY)
    for arguments in (("run", "--", "echo", "x"), ("tool",)):
        ended = terminal.wait(terminal.start(*arguments, stdout=full))
        assert ended.code == 125
        expected = b"moorage: Reading or writing failed: No space left on device.\n"
        assert ended.err == expected
    os.close(full)


def test_output_that_the_caller_closed_goes_nowhere(terminal: Any) -> None:
    script = "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])"
    closing = replace(terminal, prefix=(sys.executable, "-c", script))
    ended = closing("run", "-c", "echo lost; exit 3")
    assert (ended.code, ended.out, ended.err) == (3, b"", b"")


def test_standard_input_reaches_the_command(terminal: Any) -> None:
    data = bytes(range(256)) * 1000
    ended = terminal("run", "-i", "--", "cat", stdin=data)
    assert (ended.code, ended.out) == (0, data)


def test_without_the_flag_an_open_pipe_is_not_waited_for(terminal: Any) -> None:
    reader, writer = os.pipe()
    try:
        ended = terminal.wait(terminal.start("run", "--", "cat", stdin=reader))
    finally:
        os.close(reader)
        os.close(writer)
    assert (ended.code, ended.out) == (0, b"")


def test_a_timeout_ends_the_whole_tree_and_keeps_the_output(terminal: Any) -> None:
    command = "echo started; sleep 600 & echo $! > pid; sleep 600"
    ended = terminal("run", "--timeout", "1", "-c", command)
    assert (ended.code, ended.out) == (124, b"started\n")
    assert b"timed out after 1." in ended.err
    assert not Path(f"/proc/{(terminal.project / 'pid').read_text().strip()}").exists()


def test_a_background_child_does_not_hold_the_command_and_ends_with_it(terminal: Any) -> None:
    ended = terminal("run", "-c", "sleep 600 & echo $!")
    assert ended.code == 0
    assert not Path(f"/proc/{int(ended.out)}").exists()
    assert ended.err == b"moorage: 1 background process ended with this session.\n"


def test_a_signal_is_told_by_the_exit_code(terminal: Any) -> None:
    assert terminal("run", "-c", "kill -9 $$").code == 137


def test_the_kernel_refuses_to_write_outside(terminal: Any, tmp_path: Path) -> None:
    target = tmp_path / "outside"
    ended = terminal("run", "--", "touch", str(target))
    assert ended.code == 1
    assert b"Permission denied" in ended.err
    assert b"--writable DIR adds a folder, --mode unconfined lifts" in ended.err
    assert not target.exists()


def test_a_folder_becomes_writable_when_the_user_says_so(terminal: Any, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    ended = terminal("run", "--writable", str(folder), "--", "touch", str(folder / "made"))
    assert ended.code == 0
    assert (folder / "made").exists()


def test_in_read_only_mode_the_project_cannot_be_written(terminal: Any) -> None:
    ended = terminal("run", "--mode", "read_only", "--", "touch", "made")
    assert ended.code == 126
    assert not (terminal.project / "made").exists()


def test_the_home_of_moorage_cannot_be_read(terminal: Any) -> None:
    assert terminal("run", "--", "true").code == 0
    ended = terminal("run", "--", "grep", "-r", "", str(terminal.home / "moorage"))
    assert ended.out == b""
    assert b"record.ndjson: Permission denied" in ended.err


def test_json_tells_everything(terminal: Any) -> None:
    ended = terminal("run", "--json", "-c", r"printf '\377'; exit 3")
    document = ended.document
    assert ended.code == 3
    assert (document["outcome"], document["exit_code"]) == ("exited", 3)
    assert (document["stdout_base64"], document["stdout_bytes"]) == ("/w==", 1)
    assert document["error"] is None


def test_an_interrupt_ends_the_command_cleanly(terminal: Any) -> None:
    started = terminal.project / "started"
    os.mkfifo(started)
    child = terminal.start("run", "-c", "echo $$ > started; exec sleep 600")
    pid = int(started.read_text())
    os.killpg(child.pid, signal.SIGINT)
    ended = terminal.wait(child)
    assert (ended.code, ended.out) == (130, b"")
    assert b"Traceback" not in ended.err
    assert not Path(f"/proc/{pid}").exists()


UP = """
up() { awk '/^PPid/ { print $2 }' /proc/$1/status; }
launcher=$(up $$) nursery=$(up $launcher) worker=$(up $nursery)
"""


def test_a_worker_that_dies_leaves_an_unknown_end_and_nothing_runs_twice(terminal: Any) -> None:
    command = f"{UP} echo ran >> count; kill -9 $worker; exec sleep 600"
    ended = terminal("run", "--mode", "unconfined", "--json", "-c", command)
    assert ended.code == 125
    assert ended.document["outcome"] == "unknown"
    assert ended.document["error"]["code"] == "outcome_unknown"
    assert (terminal.project / "count").read_text() == "ran\n"
    spoken = terminal("run", "--mode", "unconfined", "-c", command)
    assert spoken.code == 125
    assert b"look before you repeat it" in spoken.err


@pytest.mark.parametrize("options", [("--json",), ()])
def test_what_was_printed_before_the_environment_died_is_told(
    terminal: Any, options: tuple[str, ...]
) -> None:
    until_it_waits = "until grep -q '^State:.S' /proc/$PPID/status; do :; done"
    command = f"echo before; {until_it_waits}; kill -9 $PPID; exec sleep 600"
    ended = terminal("run", *options, "-c", command)
    assert ended.code == 125
    if options:
        document = ended.document
        assert (document["outcome"], document["stdout"]) == ("environment_died", "before\n")
        assert document["error"]["code"] == "environment_died"
        assert terminal("session", "show", document["session"]).code == 0
    else:
        assert ended.out == b"before\n"
        assert ended.err.startswith(b"moorage: the environment ended before the command did.")


def test_the_mcp_server_ends_with_its_client(terminal: Any) -> None:
    ended = terminal("mcp", stdin=b"")
    assert (ended.code, ended.out) == (0, b"")


def test_a_session_goes_on_where_it_was(terminal: Any) -> None:
    first = terminal("run", "--json", "-c", "echo one > file").document
    second = terminal("run", "--session", first["session"], "--", "cat", "file")
    assert (second.code, second.out) == (0, b"one\n")
    shown = terminal("session", "show", first["session"]).out.decode()
    assert "$ echo one > file" in shown
    assert "$ cat file" in shown
    assert terminal("session", "rm", first["session"]).code == 0
    assert terminal("run", "--session", first["session"], "--", "true").code == 127


def test_a_session_keeps_the_mode_that_the_user_gives_it(terminal: Any) -> None:
    session = terminal("run", "--json", "--", "true").document["session"]
    assert terminal("session", "set", session, "--mode", "read_only").code == 0
    ended = terminal("tool", "write_file", "path=a", "content=b", "--session", session)
    assert ended.code == 126
    assert not (terminal.project / "a").exists()
    assert terminal("session", "set", session, "--mode", "standard").code == 0
    ended = terminal("tool", "write_file", "path=a", "content=b", "--session", session)
    assert ended.code == 0
