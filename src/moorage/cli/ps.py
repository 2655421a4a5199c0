"""``moorage ps``: the background processes of the sessions that live."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

import anyio
import click

from moorage.cli import exit_codes
from moorage.cli.failures import as_document as failure_document
from moorage.cli.failures import described
from moorage.cli.parameters import WholeNumber
from moorage.cli.process_choice import Listed, Unreachable, listed, session_option
from moorage.cli.process_view import COLOURS, COLUMNS, as_document, row
from moorage.cli.render import (
    count,
    fitted_table,
    is_colourful,
    print_failure,
    print_json,
    print_note,
    print_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EPILOG = """\b
Examples:
  moorage ps
  moorage ps --session site --last 0
  moorage ps -f
  moorage ps --json --running
"""

REFRESH_SECONDS = 1.0


class Wanted(NamedTuple):
    """Which processes are to be shown."""

    session: str | None
    last: int
    only_running: bool

    def choose(self, found: list[Listed]) -> list[Listed]:
        """Return the living ones and the latest of those that ended, in the order of starting."""
        ended = [each for each in found if each.record.is_terminal]
        ended.sort(key=lambda each: each.record.stopped_at)
        kept = [] if self.only_running else ended[-self.last :] if self.last else ended
        chosen = [each for each in found if not each.record.is_terminal] + kept
        return sorted(chosen, key=lambda each: (each.record.started_at, each.record.id))


@click.command(epilog=EPILOG)
@session_option
@click.option(
    "-n", "--last", default=20, show_default=True, metavar="COUNT", type=WholeNumber(0),
    help="How many of the latest that ended to show; 0 shows all.",
)  # fmt: skip
@click.option("--running", "only_running", is_flag=True, help="Only those that have not ended.")
@click.option("-f", "--follow", is_flag=True, help="Redraw the table until ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    session: str | None, last: int, *, only_running: bool, follow: bool, as_json: bool
) -> int:
    """List background processes: what runs, since when, and how the others ended.

    Processes are those of bash, of moorage start and of programs. Without --session, every session
    of yours is asked whose worker runs.
    """
    wanted = Wanted(session, last, only_running)
    if not follow:
        return anyio.run(_once, wanted, as_json)
    if as_json or not is_colourful():
        raise click.UsageError("--follow redraws a terminal; scripts ask for --json again.")
    return anyio.run(_redraw, wanted)


async def _once(wanted: Wanted, as_json: bool) -> int:
    found, unreachable = await listed(wanted.session)
    shown = wanted.choose(found)
    code = exit_codes.FAILED if unreachable else exit_codes.OK
    if as_json:
        print_json(_document(shown, unreachable))
        return code
    if shown:
        print_table(COLUMNS, [row(each.record, each.session) for each in shown], COLOURS)
    elif not unreachable:
        print_note("no background processes; moorage start --name NAME -- COMMAND starts one.")
    hidden = 0 if wanted.only_running else len(found) - len(shown)
    if hidden:
        print_note(f"{count(hidden, 'earlier process', 'earlier processes')} not shown; -n 0 does.")
    for each in unreachable:
        print_failure(f"session {each.session_id}: {each.error}")
    return code


def _document(shown: list[Listed], unreachable: list[Unreachable]) -> dict[str, object]:
    return {
        "processes": [as_document(each.record, each.session_id, each.name) for each in shown],
        "unreachable": [
            {"session": each.session_id, "error": failure_document(described(each.error))}
            for each in unreachable
        ],
    }


async def _redraw(wanted: Wanted) -> int:
    """Draw again and again until the user has seen enough."""
    # Late: rich costs as much as everything else together and only a terminal needs it.
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_interrupted, tasks.cancel_scope.cancel)
            while True:
                found, _ = await listed(wanted.session)
                rows = [row(each.record, each.session) for each in wanted.choose(found)]
                live.update(fitted_table(COLUMNS, rows, COLOURS), refresh=True)
                await anyio.sleep(REFRESH_SECONDS)
    return exit_codes.OK


async def _until_interrupted(end: Callable[[], None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            end()
            return
