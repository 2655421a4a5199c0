from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.cli.machine import ENGINES, PROGRAMS, Machine, ProbeLimits, kernel_version

Install = Callable[[str, str], None]


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """What a machine has on its path; empty at first."""
    return {}


@pytest.fixture
def install(tmp_path: Path, programs: dict[str, str]) -> Install:
    def put(name: str, script: str) -> None:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        programs[name] = str(file)

    return put


def machine(
    programs: dict[str, str], abi: int = 7, kernel: str = "6.18.4", **limits: float
) -> Machine:
    return Machine(
        which=programs.get,
        landlock_abi=lambda: abi,
        kernel=kernel,
        limits=ProbeLimits(**limits),
    )


async def test_a_new_kernel_can_confine(programs: dict[str, str]) -> None:
    finding = await machine(programs).confinement()
    assert (finding.state, finding.detail) == ("ok", "ABI 7, kernel 6.18.4")
    assert finding.is_required


@pytest.mark.parametrize(("linked", "state"), [((), "ok"), (("moorage", "anyio"), "limited")])
async def test_files_that_others_may_share_are_told(
    programs: dict[str, str], monkeypatch: pytest.MonkeyPatch, linked: tuple[str, ...], state: str
) -> None:
    monkeypatch.setattr("moorage.cli.machine.linked_packages", lambda: linked)
    finding = await machine(programs).own_files()
    assert finding.state == state
    assert not linked or "moorage, anyio came as hard links" in finding.detail


async def test_an_old_kernel_is_named_with_what_it_needs(
    programs: dict[str, str], install: Install
) -> None:
    install("apt-get", "")
    finding = await machine(programs, abi=2, kernel="6.1.0-13-amd64").confinement()
    assert finding.state == "missing"
    assert finding.detail == "ABI 2, kernel 6.1.0-13-amd64; ABI 3 (kernel 6.2) is needed"
    assert "backports linux-image" in finding.fix


async def test_a_kernel_with_landlock_switched_off_says_how_to_switch_it_on(
    programs: dict[str, str],
) -> None:
    finding = await machine(programs, abi=0).confinement()
    assert finding.state == "missing"
    assert "switched off at boot" in finding.detail
    assert "lsm=" in finding.fix


async def test_a_program_tells_its_version(programs: dict[str, str], install: Install) -> None:
    install("rg", "echo ripgrep 13.0.0; echo more")
    finding = await machine(programs).program(PROGRAMS[0])
    assert (finding.state, finding.detail) == ("ok", "ripgrep 13.0.0")


async def test_a_version_on_standard_error_counts(
    programs: dict[str, str], install: Install
) -> None:
    install("ssh", "echo OpenSSH_9.2 >&2")
    [ssh] = [program for program in PROGRAMS if program.name == "ssh"]
    assert (await machine(programs).program(ssh)).detail == "OpenSSH_9.2"


async def test_a_program_that_does_not_answer_is_not_waited_for(
    programs: dict[str, str], install: Install
) -> None:
    install("rg", "exec tail -f /dev/null")
    finding = await machine(programs, answer_seconds=0.05).program(PROGRAMS[0])
    assert finding.detail == programs["rg"]


async def test_a_program_that_is_missing_comes_with_the_command_that_installs_it(
    programs: dict[str, str], install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    install("apt-get", "")
    finding = await machine(programs).program(PROGRAMS[0])
    assert finding.state == "missing"
    assert finding.fix == "sudo apt-get install -y ripgrep"
    assert not finding.is_required


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_engine_is_missing_or_silent_or_answers(
    programs: dict[str, str], install: Install, engine: str
) -> None:
    assert (await machine(programs).engine(engine)).state == "missing"
    install(engine, "echo cannot connect >&2; exit 1")
    silent = await machine(programs).engine(engine)
    assert silent.state == "limited"
    assert silent.fix
    install(engine, "echo 28.2.2")
    assert (await machine(programs).engine(engine)).detail == "engine 28.2.2"


async def test_namespaces_are_tried_not_guessed(programs: dict[str, str], install: Install) -> None:
    assert (await machine(programs).namespaces()).state == "missing"
    install("unshare", "exit 1")
    refused = await machine(programs).namespaces()
    assert refused.state == "missing"
    assert "sysctl" in refused.fix
    install("unshare", "exit 0")
    assert (await machine(programs).namespaces()).state == "ok"


async def test_quickjs_is_looked_for(
    programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await machine(programs).quickjs()).state == "ok"
    monkeypatch.setattr("moorage.cli.machine.find_spec", lambda name: None)
    assert (await machine(programs).quickjs()).fix == "pip install quickjs-ng"


async def test_everything_is_looked_at_and_every_gap_has_a_fix(programs: dict[str, str]) -> None:
    findings = await machine(programs, abi=2, kernel="odd").look()
    names = [finding.name for finding in findings]
    assert names[0] == "Landlock"
    assert {"ripgrep", "git", "docker", "podman", "apptainer", "ssh", "node"} < set(names)
    assert {"namespaces", "quickjs", "bubblewrap"} < set(names)
    assert all(finding.fix for finding in findings if finding.state != "ok")


def test_a_kernel_release_is_two_numbers() -> None:
    assert kernel_version("6.1.0-13-amd64") == (6, 1)
    assert kernel_version("unknown") == (0, 0)
