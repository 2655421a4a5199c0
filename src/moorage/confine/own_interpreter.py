"""How our own Python is started: as it was installed, or out of a portable worker.

A portable worker brings its own C library. The system's loader would look for that in the wrong
place, or is not there at all: so its Python starts by the loader that came with it, always, and
through no variable that a command would inherit.
"""

from __future__ import annotations

import os
import sys

TOP = "moorage-worker"
"""The one folder that an unpacked portable worker consists of."""

LOADER = "lib/moorage-loader"
LIBRARIES = "lib/native"
PYTHON = "bin/python3"

# Nothing of the environment's Python counts, and its files have names in UTF-8.
_FLAGS = ("-I", "-S", "-X", "utf8")


def own_interpreter() -> tuple[str, ...]:
    """Return what starts our own Python; options, and a program, follow."""
    return bundled_interpreter(sys.base_prefix) if is_bundled() else (sys.executable,)


def bundled_interpreter(top: str) -> tuple[str, ...]:
    """Return what starts the Python of the portable worker that lies in the folder ``top``."""
    loader, libraries, python = (f"{top}/{part}" for part in (LOADER, LIBRARIES, PYTHON))
    return (loader, "--inhibit-cache", "--library-path", libraries, python, *_FLAGS)


def is_bundled() -> bool:
    """Return whether this is the Python of a portable worker."""
    return os.path.isfile(f"{sys.base_prefix}/{LOADER}")
