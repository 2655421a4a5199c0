"""The bare thing: a program in a terminal, and a loop that reads it into a file."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

CHUNK = 65_536


def terminal_into_file(argv: list[str], target: Path) -> None:
    """Run a program in a terminal and write all that it prints into a file."""
    master, slave = pty.openpty()
    with (
        subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True),
        target.open("wb", buffering=0) as file,
    ):
        os.close(slave)
        try:
            while data := os.read(master, CHUNK):
                file.write(data)
        except OSError:
            pass  # So a terminal ends.
        finally:
            os.close(master)
