"""``moorage worker``: become ``python -m moorage.worker``, which environments start."""

from __future__ import annotations

import os
import sys

import click

from moorage.confine.own_interpreter import own_interpreter


@click.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Serve the tools of this machine on standard streams."""
    # The outside wing never imports the worker: this process becomes it.
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: a file of the current folder must not be imported in place of a library's module.
    argv = [*own_interpreter(), "-P", "-m", "moorage.worker", *arguments]
    os.execv(argv[0], argv)  # noqa: S606 - an argument vector, no shell
