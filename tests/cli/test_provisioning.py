"""What takes long is said to a person at a terminal, and to nobody else."""

from __future__ import annotations

import pytest

from moorage.backends.steps import Step, listening, step
from moorage.cli.provisioning import progress_shown


def act() -> None:
    with step("engine"), step("pull", "pulling the image debian:12"):
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_told_what_it_waits_for(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    with progress_shown():
        act()
    said = capsys.readouterr()
    assert said.out == ""
    assert ("pulling the image debian:12 ..." in said.err) is is_terminal
    assert len(said.err.splitlines()) == int(is_terminal)


def test_a_step_is_told_as_it_begins_and_when_it_has_ended_well() -> None:
    inner: list[Step] = []
    outer: list[Step] = []
    with listening(outer.append):
        with listening(inner.append):
            act()
        with pytest.raises(ValueError, match="wrong"), step("image"):
            raise ValueError("wrong")
    assert [each.name for each in inner] == ["engine", "pull", "pull", "engine"]
    assert [each.seconds is None for each in inner] == [True, True, False, False]
    assert outer[:4] == inner
    assert [each.name for each in outer[4:]] == ["image"]
    act()
    assert len(inner) == 4
