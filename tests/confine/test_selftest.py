from __future__ import annotations

import os
import select
import sys
import tempfile
from pathlib import Path

import pytest

from moorage.confine import selftest
from moorage.confine.attacks import ATTACKS
from moorage.confine.nursery import start_nursery
from moorage.confine.nursery.messages import Kind, Message
from moorage.confine.report import not_enforced
from moorage.confine.selftest import Attackers, Scene, judge, run_here, run_self_tests
from moorage.errors import ConfinementUnavailable, EnvironmentDied, ProvisionError
from moorage.policy.permission import PermissionMode

pytestmark = pytest.mark.needs("landlock")

ADMITTED = {attack.name for attack in ATTACKS if attack.gap in {"path_sockets", "file_attributes"}}


def open_attacks(results: list[selftest.SelfTest]) -> dict[str, str]:
    return {test.name: test.detail for test in results if not test.is_enforced}


def test_every_attack_is_refused_but_those_that_are_admitted(nursery) -> None:
    results = run_here(nursery)
    assert [test.name for test in results] == [attack.name for attack in ATTACKS]
    found = open_attacks(results)
    assert found.keys() == ADMITTED
    assert all("." in detail for detail in found.values())


def test_a_temporary_folder_with_a_long_path_is_no_obstacle(nursery, tmp_path, monkeypatch) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert open_attacks(run_here(nursery)).keys() == ADMITTED


def test_without_confinement_the_same_attacks_succeed_and_are_seen(nursery) -> None:
    attacks = [attack._replace(mode=PermissionMode.UNCONFINED) for attack in ATTACKS]
    with Scene() as scene, Attackers(nursery, scene, None) as attackers:
        found = open_attacks([judge(attack, scene, attackers) for attack in attacks])
    expected = {attack.name for attack in ATTACKS}
    # A change of the workspace is a breach in read_only alone; a container may close the others.
    expected -= {"write in the workspace under read_only"}
    expected -= {"mount something over the workspace", "read the disk beneath the files"}
    if os.geteuid() == 0:
        assert found.keys() >= expected
    else:
        assert found.keys() >= {"write a file outside", "signal a process outside"}


@pytest.mark.parametrize("abi", [3, 5])
def test_what_an_older_abi_leaves_open_is_found_and_admitted(nursery, abi) -> None:
    gaps = set(not_enforced(abi))
    expected = ADMITTED | {attack.name for attack in ATTACKS if attack.gap in gaps and attack.gap}
    assert open_attacks(run_here(nursery, found_abi=abi)).keys() == expected


def test_where_commands_are_refused_that_is_the_result(nursery) -> None:
    (only,) = run_here(nursery, found_abi=2)
    assert only.is_enforced
    assert only.name == "run a command unconfined instead"
    assert "ABI 2" in only.detail


@pytest.mark.needs("root")
def test_an_ordinary_user_is_confined_as_well(tmp_path) -> None:
    """The whole run as uid 65534, in a fork, with a Python that this user may execute."""
    python = next((path for path in ("/usr/bin/python3", sys.executable) if may_run(path)), "")
    if not python:
        pytest.fail("no Python that an ordinary user may run; install python3")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            selftest.sys.executable = python
            own = start_nursery()
            os.write(writing, "\n".join(open_attacks(run_here(own))).encode())
            own.close()
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        found = file.read().splitlines()
    assert os.waitpid(pid, 0)[1] == 0
    assert set(found) == ADMITTED


def may_run(path: str) -> bool:
    """Return whether everybody may execute a program, and reach it."""
    real = Path(path).resolve()
    folders = all(folder.stat().st_mode & 0o001 for folder in real.parents)
    return real.exists() and folders and bool(real.stat().st_mode & 0o001)


def test_doctor_gets_the_results_from_a_fresh_process() -> None:
    assert open_attacks(run_self_tests()).keys() == ADMITTED


def test_nothing_of_the_current_folder_runs_in_the_fresh_process(tmp_path, monkeypatch) -> None:
    proof = tmp_path / "proof"
    planted = f"open({str(proof)!r}, 'w')\n"
    (tmp_path / "moorage").mkdir()
    (tmp_path / "moorage" / "__init__.py").write_text(planted)
    (tmp_path / "ctypes.py").write_text(planted)
    monkeypatch.chdir(tmp_path)
    assert run_self_tests()
    assert not proof.exists()


def test_a_fresh_process_that_says_nothing_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(selftest.sys, "executable", "/bin/true")
    with pytest.raises(ProvisionError, match="without an answer"):
        run_self_tests()


class Silent:
    """A channel that says what it is told to, then ends."""

    def __init__(self, *said: Message) -> None:
        self.said = list(said)
        self.reading, writing = os.pipe()
        os.close(writing)

    def fileno(self) -> int:
        return self.reading

    def receive(self) -> tuple[Message, list[int]] | None:
        return (self.said.pop(0), []) if self.said else None


class FakeLaunch:
    def __init__(self, *said: Message) -> None:
        self.channel = Silent(*said)


def test_a_launcher_that_ends_or_refuses_ends_the_self_tests() -> None:
    launch = FakeLaunch(Message(Kind.STARTED, 1, (2,)), Message(Kind.EXITED, 1, (0, 0)))
    assert select.select([launch.channel], [], [], 0)[0]
    assert selftest._await(launch, Kind.EXITED).kind is Kind.EXITED
    with pytest.raises(EnvironmentDied):
        selftest._await(launch, Kind.EXITED)
    refusing = FakeLaunch(Message(Kind.UNAVAILABLE, texts=((b"no.", b"help."),)))
    with pytest.raises(ConfinementUnavailable, match=r"no\. help\."):
        selftest._await(refusing, Kind.READY)
    os.close(launch.channel.reading)
    os.close(refusing.channel.reading)
