from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from moorage.confine.nursery import tree
from moorage.confine.nursery.tree import Process


def spawn(*argv: str, **variables: str) -> int:
    return os.posix_spawnp(argv[0], argv, {**os.environ, **variables})


@pytest.fixture
def sleeper():
    pid = spawn("sleep", "1000", MOORAGE_CALL="nonce.7")
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_process_is_seen_with_its_parent_and_its_marker(sleeper) -> None:
    seen = tree.snapshot()[sleeper]
    assert seen == tree.look_at(sleeper)
    assert (seen.parent, seen.session) == (os.getpid(), os.getsid(0))
    assert seen.is_alive
    assert sleeper in [child.pid for child in tree.by_parent(tree.snapshot())[os.getpid()]]


def test_the_marker_of_a_program_is_read_from_its_variables(sleeper) -> None:
    # Between its start and its first instruction a program may show nothing.
    while not (marker := tree.marker_of(sleeper)):
        os.sched_yield()
    assert marker == b"nonce.7"
    assert tree.marker_of(1 << 22) == b""


def test_a_name_with_blanks_and_brackets_confuses_nobody() -> None:
    line = b"42 (a) b (c)) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1 1\n"
    assert tree.parse_stat(line) == Process(42, "S", 7, 8, 9, 123456)


def test_what_awaits_collection_is_not_alive() -> None:
    pid = spawn("true")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    found = tree.look_at(pid)
    assert found is not None
    assert not found.is_alive
    os.waitpid(pid, 0)
    assert tree.look_at(pid) is None


def test_a_reused_pid_and_the_first_processes_are_never_signalled(sleeper) -> None:
    seen = tree.look_at(sleeper)
    assert seen is not None
    assert not tree.send_signal(seen._replace(started=seen.started + 1), signal.SIGKILL)
    assert not tree.send_signal(seen._replace(pid=1), signal.SIGKILL)
    assert not tree.send_signal(seen._replace(pid=0), signal.SIGKILL)
    assert not tree.send_signal(seen._replace(pid=1 << 22), signal.SIGKILL)
    assert tree.look_at(sleeper) is not None
    assert tree.send_signal(seen, 0)


def test_descendants_are_found_even_in_a_table_that_was_torn_while_it_was_read() -> None:
    family = [
        Process(pid, "S", parent, 1, 1, pid) for pid, parent in ((2, 1), (3, 2), (4, 3), (2, 4))
    ]
    children = tree.by_parent(dict(enumerate(family)))
    found = [process.pid for process in tree.with_descendants(family[0], children)]
    assert found == [2, 3, 4]


def test_children_are_found_with_and_without_the_kernels_own_list(sleeper, monkeypatch) -> None:
    seen = [p for p in tree.snapshot().values() if p.parent == os.getpid()]
    assert sleeper in tree.children_of(os.getpid())
    assert tree.children_of(os.getpid()) == {p.pid for p in seen}
    monkeypatch.setattr(tree, "open", lambda *_, **__: _raise(FileNotFoundError()), raising=False)
    monkeypatch.setattr(tree, "snapshot", lambda: {p.pid: p for p in seen})
    assert tree.children_of(os.getpid()) == {p.pid for p in seen}


def _raise(error: Exception):
    raise error


def test_signals_go_to_each(sleeper) -> None:
    seen = tree.look_at(sleeper)
    assert seen is not None
    tree.send_signals([seen], signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper, os.WSTOPPED | os.WNOWAIT)


def test_programs_are_told_from_what_a_worker_forked_of_itself() -> None:
    script = """
import os, subprocess
from moorage.confine.nursery import tree
reading, writing = os.pipe()
if not os.fork():
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
print(tree.has_programs(os.getpid()))
with subprocess.Popen(["sleep", "1000"], env={}) as program:
    print(tree.has_programs(os.getpid()))
    program.kill()
print(tree.has_programs(os.getpid()))
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as worker:
        told, _ = worker.communicate(timeout=20)
    assert told.split() == [b"False", b"True", b"False"]
