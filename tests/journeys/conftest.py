"""The command line as a person uses it: a process of its own, a home and a project of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

PATIENCE_SECONDS = 40
# Two capabilities let root pass every file mode; an exec loses what the bounding set has not.
GIVE_UP_OVERRIDE = """
import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
MAIN = "from moorage.cli.__main__ import main; main()"


@dataclass(frozen=True)
class Ended:
    code: int
    out: bytes
    err: bytes

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.out)


@dataclass
class Terminal:
    """Starts ``moorage`` in one project with one home."""

    project: Path
    home: Path
    variables: dict[str, str]
    prefix: tuple[str, ...] = ()
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [*self.prefix, sys.executable, "-P", "-c", MAIN, *arguments],
            cwd=self.project,
            env=self.variables,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        self.started.append(child)
        return child

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Ended:
        how = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        return self.wait(self.start(*arguments, stdin=how), stdin)

    def wait(self, child: subprocess.Popen[bytes], stdin: bytes | None = None) -> Ended:
        out, err = child.communicate(stdin, timeout=PATIENCE_SECONDS)
        return Ended(child.returncode, out or b"", err)

    def without_the_rights_of_root(self) -> Terminal:
        """Return the same terminal for a user whom file modes hold, even if root tests."""
        prefix = (sys.executable, "-c", GIVE_UP_OVERRIDE)
        return Terminal(self.project, self.home, self.variables, prefix, self.started)

    def without_landlock(self) -> Terminal:
        """Return the same terminal on a machine whose kernel knows no Landlock."""
        script = Path(__file__).parent / "without_landlock.py"
        prefix = (sys.executable, str(script))
        return Terminal(self.project, self.home, self.variables, prefix, self.started)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    project, home, temporary = (tmp_path / name for name in ("project", "home", "tmp"))
    for folder in (project, home, temporary):
        folder.mkdir()
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "MOORAGE_HOME": str(home / "moorage"),
        "TMPDIR": str(temporary),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LANG": "C.UTF-8",
    }
    measured = {name: os.environ[name] for name in os.environ if name.startswith("COVERAGE")}
    terminal = Terminal(project, home, variables | measured)
    yield terminal
    for child in terminal.started:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=PATIENCE_SECONDS)
