"""The programs of the README and the tutorial do what a reader will see them do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = re.compile(r"^```python\n(import anyio\n.*?)^```", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.needs("landlock")


def run_program_of(page: str, terminal: Any) -> str:
    [program] = PROGRAM.findall((ROOT / page).read_text())
    (terminal.project / "hello").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=terminal.project,
        env=terminal.variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        out, _ = child.communicate(timeout=40)
    assert child.returncode == 0, out
    return out


def test_the_program_of_the_readme_runs(terminal: Any) -> None:
    out = run_program_of("README.md", terminal)
    assert out.startswith("exited 0 hello\n")
    assert "hello.py" in out


def test_the_program_of_the_tutorial_runs(terminal: Any) -> None:
    out = run_program_of("docs/tutorial.md", terminal)
    assert out.startswith("exited 1\n")
    assert "FAILED (failures=1)" in out
    assert out.endswith("exited 0\n")
