from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout

import pytest

from moorage.cli.steps import StepFailed, Steps
from moorage.errors import Refused


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_prints_its_title_and_what_it_showed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    with steps.step("Do it") as step:
        step.show("first\nsecond\x1b[2J\n")
    with steps.step("Do more"):
        pass
    first, second, third, fourth = capsys.readouterr().out.splitlines()
    assert first.startswith(" 1  Do it ")
    assert " ok " in first
    assert first.endswith(" ms")
    assert (second, third) == ("      first", "      second\\x1b[2J")
    assert fourth.startswith(" 2  Do more ")


def test_a_step_that_does_not_do_what_it_says_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def be_red() -> None:
        with Steps().step("Be red") as step:
            step.expect(True, "never")
            step.show("seen")
            step.expect(False, "it was blue")

    with pytest.raises(StepFailed, match="it was blue"):
        be_red()
    out = capsys.readouterr().out
    assert " failed " in out
    assert "seen" in out


def test_an_error_inside_a_step_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Refused), Steps().step("Try"):
        raise Refused("no.")
    assert " failed " in capsys.readouterr().out


def test_a_step_is_alive_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    with redirect_stdout(terminal):
        assert sys.stdout is terminal
        with Steps().step("Do it [bold]"):
            pass
    written = terminal.getvalue()
    assert "Do it [bold]" in written
    assert "\x1b[32mok\x1b[0m" in written
