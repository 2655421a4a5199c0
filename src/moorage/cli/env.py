"""``moorage env``: the environments that the user configured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
import msgspec

from moorage.app.config import load
from moorage.app.environments import Finding, check_environment, list_environments
from moorage.app.home import find_home
from moorage.cli import exit_codes
from moorage.cli.parameters import Folder
from moorage.cli.render import print_failure, print_fields, print_json, print_table, styled
from moorage.cli.session_options import complete_environments

EPILOG = """\b
Examples:
  moorage env list
  moorage env show local
  moorage env check local --json
"""

name_argument = click.argument(
    "name", metavar="[NAME]", default="", shell_complete=complete_environments
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show and check configured environments.

    They stand in config.json (or config.toml) in Moorage's home; a project cannot add one.
    """


@command.command("list")
@json_option
def list_configured(*, as_json: bool) -> int:
    """List the environments that a session can name."""
    found = list_environments(load(find_home()))
    if as_json:
        print_json(found)
        return exit_codes.OK
    print_table(
        ("NAME", "BACKEND", "DEFAULT", "STATE"),
        [
            (each.name, each.backend, "yes" if each.is_default else "", each.problem or "ready")
            for each in found
        ],
    )
    return exit_codes.OK


@command.command()
@name_argument
@json_option
def show(name: str, *, as_json: bool) -> int:
    """Show the profile of one environment, the default one when none is named."""
    home = find_home()
    configuration = load(home)
    chosen = name or configuration.default_name()
    fields = msgspec.to_builtins(configuration.profile(chosen))
    document: dict[str, Any] = {
        "name": chosen,
        "is_default": chosen == configuration.default_name(),
        "configuration": str(home.configuration),
        "writable_roots": list(configuration.writable_roots),
        "profile": fields,
    }
    if as_json:
        print_json(document)
        return exit_codes.OK
    shown = {**document, **fields}
    del shown["profile"]
    print_fields({key: _as_text(value) for key, value in shown.items()})
    return exit_codes.OK


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value) or "none"
    return str(value)


@command.command()
@name_argument
@click.option(
    "-w", "--workspace", metavar="DIR", type=Folder(),
    help="Folder to check with (local only); the current one otherwise.",
)  # fmt: skip
@json_option
def check(name: str, workspace: str | None, *, as_json: bool) -> int:
    """Open an environment, use it, and say what works. Nothing in the workspace is changed."""
    return anyio.run(partial(_check, name, workspace, as_json=as_json))


async def _check(name: str, workspace: str | None, *, as_json: bool) -> int:
    home = find_home()
    chosen = name or load(home).default_name()
    folder = None if workspace is None else Path(workspace)
    findings: list[Finding] = []
    async for finding in check_environment(home, chosen, workspace=folder):
        findings.append(finding)
        if not as_json:
            _show(finding)
    is_fine = all(finding.is_fine for finding in findings)
    if as_json:
        print_json({"name": chosen, "is_fine": is_fine, "findings": findings})
    elif is_fine:
        click.echo(f"{chosen} works.")
    return exit_codes.OK if is_fine else exit_codes.FAILED


def _show(finding: Finding) -> None:
    if finding.is_fine:
        mark = styled("ok", fg="green")
        click.echo(f"  {mark}  {finding.name.ljust(10)}{finding.detail}")
    else:
        print_failure(f"{finding.name}: {finding.detail}")
