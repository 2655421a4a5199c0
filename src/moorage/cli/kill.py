"""``moorage kill``: end background processes at once, by force."""

from __future__ import annotations

import anyio
import click

from moorage.cli.process_choice import processes_argument
from moorage.cli.stop import end_all

EPILOG = """\b
Examples:
  moorage kill proc-1a2b3c4d
  moorage kill --json site/proc-1a2b3c4d
"""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@processes_argument
def command(names: tuple[str, ...], *, as_json: bool) -> int:
    """Kill each PROCESS with all it started, without asking, and say how it ended.

    The session's own supervisor does it, also while a moorage stop still waits.
    """
    return anyio.run(end_all, names, True, as_json)
