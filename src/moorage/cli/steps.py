"""Numbered steps with their time: alive on a terminal, plain lines when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import click

from moorage.cli.render import duration, is_colourful, many_lines, styled
from moorage.errors import ExecutionError

TITLE_WIDTH = 58


class StepFailed(ExecutionError):
    """A step did not do what it says."""

    code = "step_failed"


class Step:
    """What one step wants to show below its title."""

    def __init__(self) -> None:
        """Begin with nothing to show."""
        self.lines: list[str] = []

    def show(self, text: str) -> None:
        """Add lines to show when the step has ended."""
        self.lines += many_lines(text).rstrip("\n").split("\n")

    def expect(self, is_so: bool, otherwise: str) -> None:
        """Go on when ``is_so``.

        Raises:
            StepFailed: it is not so; ``otherwise`` says what was seen instead, without a full stop.
        """
        if not is_so:
            raise StepFailed(
                f"{otherwise}.", hint="See what this machine lacks with moorage doctor."
            )


class Steps:
    """Prints steps in order."""

    def __init__(self) -> None:
        """Begin with the first step."""
        self._number = 0

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Run one step; print its title, its time and what it showed, however it ends."""
        self._number += 1
        step, started = Step(), time.monotonic()
        mark, colour = "failed", "red"
        try:
            with _spinner(f"{self._number}  {title}"):
                yield step
            mark, colour = "ok", "green"
        finally:
            taken = duration((time.monotonic() - started) * 1000)
            head = f"{self._number:>2}  {title.ljust(TITLE_WIDTH)}"
            click.echo(f"{head} {styled(mark, fg=colour)} {styled(taken.rjust(7), dim=True)}")
            for line in step.lines:
                click.echo(f"      {styled(line, dim=True)}".rstrip())


def _spinner(text: str) -> AbstractContextManager[object]:
    if not is_colourful():
        return nullcontext()
    # Late: rich costs as much as everything else together and only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    return Console(file=sys.stdout).status(Text(text))
