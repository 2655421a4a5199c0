"""The user's own terminal, lent to a background process and given back as it was."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
import click

READ_BYTES = 4096

_CONTROLS, _CHARACTERS = 3, 6
"""Places in what ``tcgetattr`` returns: the local modes and the control characters."""

_PRIVATE_MODE = re.compile(r"\x1b\[\?([0-9;]{1,64})([hl])")
_HALF_SEQUENCE = re.compile(r"\x1b(?:\[(?:\?[0-9;]{0,64})?)?\Z")
_CURSOR = 25
_ON_BY_DEFAULT = frozenset({7, _CURSOR})
_QUESTION = re.compile(
    r"\x1b\[[>=]?[0-9;]*[cn]"  # who are you, where is the cursor
    r"|\x1b\[\??[0-9;]*\$p|\x1b\[>[0-9]*q"  # which mode, which version
    r"|\x1b\][0-9;]*;\?(?:\x07|\x1b\\)"  # which colour
)


def without_questions(text: str) -> str:
    """Return old output without what a terminal would answer: nobody waits for that any more."""
    return _QUESTION.sub("", text)


class Traces:
    """What output has changed of a terminal, so that it can be put right afterwards."""

    def __init__(self) -> None:
        """Begin with a terminal as a shell leaves it."""
        self._changed: set[int] = set()
        self._rest = ""
        self._is_styled = False
        self.is_at_line_start = True

    def note(self, text: str) -> None:
        """Take in what was shown."""
        if not text:
            return
        self.is_at_line_start = text.endswith("\n")
        text = self._rest + text
        self._is_styled = self._is_styled or "\x1b" in text
        for numbers, action in _PRIVATE_MODE.findall(text):
            for number in (int(each) for each in numbers.split(";") if each):
                if (action == "h") == (number in _ON_BY_DEFAULT):
                    self._changed.discard(number)
                else:
                    self._changed.add(number)
        half = _HALF_SEQUENCE.search(text)
        self._rest = half[0] if half else ""

    def undo(self) -> str:
        """Return what puts the terminal right, and the cursor at the start of a line."""
        modes = "".join(
            f"\x1b[?{number}{'h' if number in _ON_BY_DEFAULT else 'l'}"
            for number in sorted(self._changed)
        )
        style = "\x1b[0m" if self._is_styled else ""
        return modes + style + ("" if self.is_at_line_start else "\r\n")


class OwnTerminal:
    """A way of our own to the terminal: what is set on it does not reach the shell's."""

    def __init__(self, descriptor: int) -> None:
        """Use an open terminal, which does not block."""
        self._fd = descriptor

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[OwnTerminal]:
        """Open the terminal of standard input for the length of a block.

        Raises:
            UsageError: standard input or output is none.
        """
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise click.UsageError(
                "attach needs a terminal; moorage logs -f shows the output without one."
            )
        try:
            name = os.ttyname(sys.stdin.fileno())
        except OSError:  # it came from another container
            name = "/dev/tty"
        descriptor = os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            yield cls(descriptor)
        finally:
            os.close(descriptor)

    def size(self) -> tuple[int, int] | None:
        """Return columns and rows, when the terminal knows them."""
        columns, rows = os.get_terminal_size(self._fd)
        return (columns, rows) if columns and rows else None

    @contextmanager
    def lent(self, detach: bytes, *, is_raw: bool) -> Iterator[None]:
        """Pass keys on as they are, or line by line, and give the terminal back at the end."""
        before = termios.tcgetattr(self._fd)
        # A terminal in the background is given back, too.
        handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            self.lend(detach, is_raw=is_raw)
            yield
        finally:
            termios.tcsetattr(self._fd, termios.TCSANOW, before)
            signal.signal(signal.SIGTTOU, handler)

    def lend(self, detach: bytes, *, is_raw: bool) -> None:
        """Set the terminal; again after it was taken away by a stop of this program."""
        if is_raw:
            tty.setraw(self._fd, termios.TCSANOW)
            return
        modes = termios.tcgetattr(self._fd)
        modes[_CONTROLS] |= termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
        modes[_CHARACTERS][termios.VEOL2] = detach  # it ends a line, so that it is read at once
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)

    async def read(self) -> bytes:
        """Return what was typed; nothing once the terminal is gone."""
        while True:
            await anyio.wait_readable(self._fd)
            try:
                return os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return b""

    async def write(self, text: str) -> None:
        """Show text."""
        rest = memoryview(text.encode())
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._fd)

    def write_last(self, text: str) -> None:
        """Show text, as far as the terminal takes it at once."""
        with suppress(OSError):
            os.write(self._fd, text.encode())
