"""``moorage env check``: a round trip through an environment, step by step."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import click

from moorage.app.checking import Finding, check_environment
from moorage.app.config import load
from moorage.app.home import find_home
from moorage.cli import exit_codes
from moorage.cli.parameters import Folder
from moorage.cli.provisioning import progress_shown
from moorage.cli.render import duration, one_line, print_failure, print_json, styled
from moorage.cli.session_options import complete_environments

NAME_WIDTH = 13
DETAIL_WIDTH = 60


@click.command("check")
@click.argument("name", metavar="[NAME]", default="", shell_complete=complete_environments)
@click.option(
    "-w", "--workspace", metavar="DIR", type=Folder(),
    help="Folder to check with (local only); the current one otherwise.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(name: str, workspace: str | None, *, as_json: bool) -> int:
    """Open an environment, use it, and say what works and how long each step takes.

    Nothing in the workspace is changed. A session is saved for it; what the profile keeps, stays.
    """
    return anyio.run(partial(_check, name, workspace, as_json=as_json))


async def _check(name: str, workspace: str | None, *, as_json: bool) -> int:
    home = find_home()
    chosen = name or load(home).default_name()
    folder = None if workspace is None else Path(workspace)
    with progress_shown():
        findings = await check_environment(
            home, chosen, workspace=folder, report=_unshown if as_json else _show
        )
    is_fine = all(finding.is_fine for finding in findings)
    if as_json:
        print_json({"name": chosen, "is_fine": is_fine, "findings": findings})
    elif is_fine:
        click.echo(f"{chosen} works.")
    return exit_codes.OK if is_fine else exit_codes.FAILED


def _unshown(finding: Finding) -> None:
    """Leave it to the document."""


def _show(finding: Finding) -> None:
    if not finding.is_fine:
        print_failure(f"{finding.name}: {finding.detail}")
        return
    mark = styled("ok", fg="green")
    taken = duration(finding.milliseconds) if finding.milliseconds else ""
    detail = one_line(finding.detail).ljust(DETAIL_WIDTH)
    time = styled(taken.rjust(8), dim=True)
    click.echo(f"  {mark}  {finding.name.ljust(NAME_WIDTH)}{detail} {time}".rstrip())
