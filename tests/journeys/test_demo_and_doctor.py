from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.needs("landlock", "git")
def test_the_demo_does_what_it_says_and_leaves_nothing_behind(terminal: Any) -> None:
    ended = terminal("demo")
    assert ended.code == 0
    assert ended.err == b""
    out = ended.out.decode()
    assert "\x1b" not in out
    steps = [line for line in out.splitlines() if line[:2].strip().isdigit()]
    assert len(steps) == 7
    assert all(" ok " in step for step in steps)
    assert "FAILED (failures=1)" in out
    assert "Permission denied" in out
    assert [*terminal.home.rglob("*"), *terminal.project.rglob("*")] == []
    assert list(Path(terminal.variables["TMPDIR"]).iterdir()) == []


def test_the_demo_says_what_helps_where_the_kernel_cannot_confine(terminal: Any) -> None:
    ended = terminal.without_landlock()("demo")
    assert ended.code == 126
    assert b"Landlock" in ended.err
    assert b"bubblewrap" in ended.err
    assert b"Traceback" not in ended.err
    assert list(Path(terminal.variables["TMPDIR"]).iterdir()) == []


@pytest.mark.needs("landlock")
def test_doctor_finds_a_machine_that_works_and_proves_it_by_attacks(terminal: Any) -> None:
    ended = terminal("doctor", "--json")
    assert ended.code == 0
    report = ended.document
    assert report["is_fine"]
    assert report["main_path"]["state"] == "ok"
    assert report["findings"][0]["name"] == "Landlock"
    assert len(report["self_tests"]) >= 7
    assert list(Path(terminal.variables["TMPDIR"]).iterdir()) == []


@pytest.mark.needs("landlock")
def test_doctor_speaks_to_people_too(terminal: Any) -> None:
    ended = terminal("doctor")
    out = ended.out.decode()
    assert ended.code == 0
    assert "Landlock" in out
    assert "Next: moorage demo" in out
    assert "\x1b" not in out


def test_doctor_exits_with_1_where_the_kernel_cannot_confine(terminal: Any) -> None:
    ended = terminal.without_landlock()("doctor", "--json")
    assert ended.code == 1
    report = ended.document
    assert not report["is_fine"]
    landlock = report["findings"][0]
    assert (landlock["name"], landlock["state"]) == ("Landlock", "missing")
    assert landlock["fix"]
