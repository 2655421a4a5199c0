"""A warden in a fork of the test: it ends all beneath it, and reaches nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from moorage.confine import hardening, landlock
from moorage.confine.nursery import tree, warden
from moorage.confine.plan import Plan, Rule
from moorage.policy.permission import PermissionMode

CONFINED = Plan(PermissionMode.STANDARD)


def fork(action: Callable[[int], bool]) -> int:
    """Run an action in a forked process that knows its parent, and return its pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if action(parent) else 1)
        except BaseException:  # noqa: BLE001 - a fork must never return into the test runner
            os._exit(2)
    return pid


def in_a_fork(action: Callable[[int], bool]) -> int:
    """Run an action in a forked process and return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(action), 0)[1])


def test_a_warden_is_possible_where_signals_can_be_kept_inside() -> None:
    assert warden.is_possible(CONFINED, 6)
    assert not warden.is_possible(CONFINED, 5)
    assert not warden.is_possible(Plan(PermissionMode.UNCONFINED), 7)


def test_without_a_scope_the_parent_is_in_reach() -> None:
    assert in_a_fork(lambda parent: not tree.is_parent_out_of_reach(parent)) == 0
    assert not tree.is_parent_out_of_reach(1 << 22)


def test_a_stranger_out_of_reach_proves_nothing(monkeypatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(tree.os, "kill", refuse)
    assert not tree.is_parent_out_of_reach(os.getpid())
    assert tree.is_parent_out_of_reach(os.getppid())


@pytest.mark.needs("landlock")
@pytest.mark.needs("signal scope")
def test_a_process_that_only_keeps_signals_inside_is_forbidden_nothing_else(tmp_path) -> None:
    abi = landlock.abi()
    for name in ("one", "two", "one/file"):
        (tmp_path / name).mkdir()

    def action(parent: int) -> bool:
        hardening.forbid_new_privileges()
        landlock.restrict_signals(abi)
        # A second domain beneath, as a launcher has it, must still move between folders.
        grants = [Rule(str(tmp_path), (1 << 14) - 1)]
        plan = Plan(PermissionMode.STANDARD, (str(tmp_path),))
        landlock.restrict(plan, grants, found_abi=abi)
        os.rename(tmp_path / "one" / "file", tmp_path / "two" / "file")
        return tree.is_parent_out_of_reach(parent)

    assert in_a_fork(action) == 0


@pytest.mark.needs("landlock")
@pytest.mark.needs("signal scope")
def test_a_warden_ends_what_its_launcher_left_and_reaches_nobody_else() -> None:
    abi = landlock.abi()
    stranger = os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)

    def action(parent: int) -> bool:
        if not warden.become_warden(parent, abi):
            return False
        launcher = os.fork()
        if launcher == 0:
            os.setsid()
            os.posix_spawnp("setsid", ["setsid", "sleep", "1000"], os.environ)
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        warden.watch(launcher)
        return not tree.children_of(os.getpid())

    assert in_a_fork(action) == 0
    assert os.waitpid(stranger, os.WNOHANG) == (0, 0)
    os.kill(stranger, signal.SIGKILL)
    os.waitpid(stranger, 0)


@pytest.mark.needs("landlock")
@pytest.mark.needs("signal scope")
def test_a_warden_can_be_told_to_end_its_launcher() -> None:
    abi = landlock.abi()
    reading, writing = os.pipe()

    def action(parent: int) -> bool:
        if not warden.become_warden(parent, abi):
            return False
        launcher = os.fork()
        if launcher == 0:
            while name_of(os.getppid()) != "moorage-warden":  # by then it listens
                os.sched_yield()
            os.write(writing, b"x")
            signal.pause()
        warden.watch(launcher)
        return True

    pid = fork(action)
    assert os.read(reading, 1) == b"x"
    os.kill(pid, warden.END_SIGNAL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(reading)
    os.close(writing)


def name_of(pid: int) -> str:
    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read().strip()
