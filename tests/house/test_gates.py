from __future__ import annotations

import sys
from pathlib import Path

import pytest

import gates


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates.repository, "ROOT", tmp_path)
    programs = {"good": "print('fine')", "bad": "raise SystemExit(3)", "tests": "print(LINE)"}
    line = "LINE = '===== 3 passed, 1 skipped in 0.52s ====='\n"
    chosen = [
        gates.Gate(name, (sys.executable, "-c", line + text)) for name, text in programs.items()
    ]
    monkeypatch.setattr(gates, "GATES", tuple(chosen))


@pytest.mark.usefixtures("scripts")
def test_all_gates_run_even_after_one_has_failed(capfd: pytest.CaptureFixture[str]) -> None:
    assert gates.main([]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert "fine" in lines
    assert "gates: failed: bad" in lines


@pytest.mark.usefixtures("scripts")
def test_the_last_line_is_the_closing_line_of_the_test_runner(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert gates.main(["good", "tests"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2:] == ["gates: all passed", "3 passed, 1 skipped in 0.52s"]


@pytest.mark.usefixtures("scripts")
def test_an_unknown_gate_is_refused_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert gates.main(["god"]) == 2
    assert "no gate is called god" in capfd.readouterr().out


def test_the_list_names_every_gate(capfd: pytest.CaptureFixture[str]) -> None:
    assert gates.main(["--list"]) == 0
    assert capfd.readouterr().out.split() == [gate.name for gate in gates.GATES]
