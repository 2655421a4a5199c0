"""A terminal with a person at it: ``moorage`` runs in it, keys go in, and what it shows is kept."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
from typing import Any

PATIENCE_SECONDS = 20
# The child is a session leader without a terminal; the one it reads from becomes its own.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
MAIN = "from moorage.cli.__main__ import main; main()"


class Screen:
    """One program in one terminal of its own."""

    def __init__(self, terminal: Any, *arguments: str, size: tuple[int, int] = (30, 100)) -> None:
        self.shown = ""
        self._looked_at = 0
        self._master, self.slave = os.openpty()
        self.resize(*size)
        self.modes = termios.tcgetattr(self.slave)
        python = (sys.executable, "-P", "-c")
        self.child = subprocess.Popen(
            [*python, TAKE_TERMINAL, *python, MAIN, *arguments],
            cwd=terminal.project,
            env=terminal.variables | {"TERM": "xterm"},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )
        terminal.started.append(self.child)

    def resize(self, rows: int, columns: int) -> None:
        packed = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, packed)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _take(self) -> None:
        ready, _, _ = select.select([self._master], [], [], PATIENCE_SECONDS)
        assert ready, f"nothing came after {self.shown!r}"
        self.shown += os.read(self._master, 65536).decode()

    def sees(self, text: str) -> str:
        """Wait until a text is shown, after what was seen before; return all in between."""
        while text not in self.shown[self._looked_at :]:
            self._take()
        begin, self._looked_at = self._looked_at, self.shown.index(text, self._looked_at)
        self._looked_at += len(text)
        return self.shown[begin : self._looked_at]

    def ends(self) -> int:
        """Wait for the end of the program, and take what it still shows; return its exit code."""
        ended = os.pidfd_open(self.child.pid)
        try:
            ready: list[int] = []
            while ended not in ready:
                ready, _, _ = select.select([self._master, ended], [], [], PATIENCE_SECONDS)
                assert ready, f"it did not end after {self.shown!r}"
                if self._master in ready:
                    self._take()
        finally:
            os.close(ended)
        while select.select([self._master], [], [], 0)[0]:
            self._take()
        return self.child.wait(timeout=PATIENCE_SECONDS)

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.slave) == self.modes

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait(timeout=PATIENCE_SECONDS)
        os.close(self._master)
        os.close(self.slave)
