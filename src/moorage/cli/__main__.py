"""The entry point ``moorage``: check that the command line's libraries are there, then run it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

LIBRARIES = ("click", "rich")


def missing_libraries(libraries: tuple[str, ...] = LIBRARIES) -> list[str]:
    """Return those of the command line's own libraries that are not installed."""
    return [name for name in libraries if find_spec(name) is None]


def fill_standard_streams() -> None:
    """Let a standard stream that the caller closed lead nowhere.

    Otherwise the next file opened would take its number, and be read or written as that stream.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            if null != descriptor:
                os.close(null)
            setattr(sys, name, os.fdopen(descriptor, mode))


def main() -> None:
    """Run the command line and exit with its code."""
    fill_standard_streams()
    missing = missing_libraries()
    if missing:
        sys.stderr.write(
            f"moorage: the command line needs {' and '.join(missing)}; "
            "install it with: pip install 'moorage[cli]'\n"
        )
        raise SystemExit(125)
    # Late, because this import needs click; the base install has to reach the sentence above.
    from moorage.cli.command_line import run_command_line  # noqa: PLC0415

    raise SystemExit(run_command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
