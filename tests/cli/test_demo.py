from __future__ import annotations

from typing import Any

import pytest

from moorage.cli import demo


@pytest.mark.needs("landlock", "git")
def test_a_step_that_does_not_do_what_it_says_ends_the_demo_with_1(
    command_line: Any, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = demo.FILES["prices/total.py"].replace(demo.WRONG, demo.RIGHT)
    monkeypatch.setattr(demo, "FILES", {**demo.FILES, "prices/total.py": right})
    ended = command_line("demo")
    assert ended.code == 1
    assert b"Run its tests: one fails" in ended.out
    assert b"failed" in ended.out
    assert ended.err == (
        b"moorage: expected exit code 1, got 0 (exited). "
        b"See what this machine lacks with moorage doctor.\n"
    )
    assert list(home.iterdir()) == []
