"""``moorage env prune``: what dead hosts left behind, shown and then removed."""

from __future__ import annotations

import sys
from functools import partial

import anyio
import click

from moorage.app.home import find_home
from moorage.app.pruning import Prunable, Removal, find_leftovers, remove_leftovers
from moorage.backends.care.caretaker import Leftover
from moorage.cli import exit_codes
from moorage.cli.render import count, print_failure, print_json, print_note, print_table

EPILOG = """\b
Examples:
  moorage env prune
  moorage env prune --yes
  moorage env prune --retained SESSION

\b
Exit code: 0 when nothing is left over any more, 1 when something is.
"""


@click.command("prune", epilog=EPILOG)
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@click.option(
    "--retained", "retained", metavar="NAME", multiple=True,
    help="Remove also what is kept of this session, environment or container; repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prune(*, yes: bool, retained: tuple[str, ...], as_json: bool) -> int:
    """Find what a host that was killed left behind, and remove it after asking.

    That is: containers and folders whose host is gone, workers that nothing starts any more, and
    what is remembered of removed sessions. What a session uses just now stays, and so does what
    its profile keeps (persistent or shared), unless you name it. Without a terminal and without
    --yes it is only listed.
    """
    return anyio.run(partial(_prune, retained, is_sure=yes, as_json=as_json))


async def _prune(retained: tuple[str, ...], *, is_sure: bool, as_json: bool) -> int:
    home = find_home()
    found = await find_leftovers(home, retained)
    if not as_json:
        _show(found)
    removals: list[Removal] = []
    if found.leftovers and (is_sure or (not as_json and _is_confirmed(found.leftovers))):
        async for removal in remove_leftovers(home, found.leftovers):
            removals.append(removal)
            if removal.problem and not as_json:
                print_failure(f"{removal.leftover.name}: {removal.problem}")
    removed = [each.leftover for each in removals if not each.problem]
    if as_json:
        failed = [each for each in removals if each.problem]
        print_json(_document(found, removed, failed))
    elif removals:
        print_note(f"removed {count(len(removed), 'thing')}.")
    is_clean = len(removed) == len(found.leftovers) and not found.problems
    return exit_codes.OK if is_clean else exit_codes.FAILED


def _document(found: Prunable, removed: list[Leftover], failed: list[Removal]) -> dict[str, object]:
    return {
        "leftovers": found.leftovers,
        "removed": removed,
        "failed": failed,
        "retained": found.retained,
        "problems": found.problems,
    }


def _show(found: Prunable) -> None:
    if found.leftovers:
        columns = ("KIND", "BACKEND", "SINCE", "SESSION", "OWNER", "WHY", "NAME")
        print_table(columns, [_row(each) for each in found.leftovers])
    else:
        print_note("nothing is left over.")
    if found.retained:
        kept = count(len(found.retained), "environment or folder", "environments and folders")
        print_note(f"{kept} that a profile keeps: left alone; --retained NAME removes one.")
    for problem in found.problems:
        print_failure(problem)


def _row(leftover: Leftover) -> tuple[str, ...]:
    return (
        leftover.kind,
        leftover.backend,
        leftover.created_at[:19].replace("T", " "),
        leftover.session,
        leftover.owner,
        leftover.reason,
        leftover.name,
    )


def _is_confirmed(leftovers: list[Leftover]) -> bool:
    if not sys.stdin.isatty():
        print_note("nothing was removed; --yes removes it all.")
        return False
    question = f"Remove {count(len(leftovers), 'thing')}, with all that is in it?"
    return click.confirm(question, default=False, err=True)
