"""``moorage env``: the environments that the user configured."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from moorage.app.config import load
from moorage.app.environments import list_environments
from moorage.app.home import find_home
from moorage.cli import exit_codes
from moorage.cli.env_check import check
from moorage.cli.env_conform import conform
from moorage.cli.env_profiles import add, remove
from moorage.cli.env_prune import prune
from moorage.cli.render import print_fields, print_json, print_table
from moorage.cli.session_options import complete_environments

EPILOG = """\b
Examples:
  moorage env list
  moorage env show local
  moorage env add box --backend docker --image debian:12
  moorage env check box
  moorage env conform box
  moorage env prune
"""

name_argument = click.argument(
    "name", metavar="[NAME]", default="", shell_complete=complete_environments
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show, add, remove, check and prove environments, and clean up after them.

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


for subcommand in (add, remove, check, conform, prune):
    command.add_command(subcommand)
