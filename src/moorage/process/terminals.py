"""Terminals: a pair of ends, one for us and one for a program, and their size."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from moorage.errors import ProvisionError

LARGEST_SIZE = 65_535


class NoTerminal(ProvisionError):
    """The system gave no terminal; nothing ran."""


def open_terminal(size: tuple[int, int]) -> tuple[int, int]:
    """Return our end and a program's end of a new terminal of so many rows and columns.

    Raises:
        NoTerminal: the system has none left, or none at all.
    """
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        raise NoTerminal(f"There is no terminal to be had: {error.strerror}.") from error
    try:
        set_size(ours, size)
        os.ttyname(theirs)
    except OSError as error:
        os.close(ours)
        os.close(theirs)
        raise NoTerminal(f"A terminal cannot be used: {error.strerror}.") from error
    return ours, theirs


def set_size(fd: int, size: tuple[int, int]) -> None:
    """Set rows and columns of the terminal behind a descriptor."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
