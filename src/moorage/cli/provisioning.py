"""What is said while an environment is being got: where it takes long, and only to a person."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

from moorage.backends.steps import Step, listening
from moorage.cli.render import print_note


def progress_shown() -> AbstractContextManager[None]:
    """Say on standard error what a person at a terminal is waiting for."""
    return listening(_say) if sys.stderr.isatty() else nullcontext()


def _say(step: Step) -> None:
    if step.doing and step.seconds is None:
        print_note(f"{step.doing} ...")
