"""``moorage env conform``: whether an environment does what every backend must do."""

from __future__ import annotations

from functools import partial

import anyio
import click
import msgspec

from moorage.app.config import load
from moorage.app.home import find_home
from moorage.cli import exit_codes
from moorage.cli.provisioning import progress_shown
from moorage.cli.render import duration, one_line, print_failure, print_json, styled
from moorage.cli.session_options import complete_environments
from moorage.testing.conformance import (
    Outcome,
    Report,
    conformance_checks,
    places_of,
    run_conformance,
)

NAME_WIDTH = 52
THEMES = tuple(dict.fromkeys(each.theme for each in conformance_checks()))


@click.command("conform")
@click.argument("name", metavar="[NAME]", default="", shell_complete=complete_environments)
@click.option(
    "--theme", "themes", metavar="THEME", multiple=True, type=click.Choice(THEMES),
    help="Only the checks of this theme; may be repeated.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def conform(name: str, themes: tuple[str, ...], *, as_json: bool) -> int:
    """Prove an environment by the checks that every backend has to pass; takes some minutes.

    Each check works in a new environment of the profile, with a home of its own, and removes it.
    What the backend does not offer has to be refused clearly.
    """
    return anyio.run(partial(_conform, name, themes, as_json=as_json))


async def _conform(name: str, themes: tuple[str, ...], *, as_json: bool) -> int:
    configuration = load(find_home())
    chosen = name or configuration.default_name()
    fields = msgspec.to_builtins(configuration.profile(chosen))
    with progress_shown():
        report = await run_conformance(
            places_of(fields),
            checks=conformance_checks(*themes),
            on_outcome=_unshown if as_json else _show,
        )
    if as_json:
        document = {"name": chosen, "conforms": report.conforms, "outcomes": report.outcomes}
        print_json(document)
    else:
        click.echo(_summary(chosen, report))
    return exit_codes.OK if report.conforms else exit_codes.FAILED


def _summary(name: str, report: Report) -> str:
    verdict = "conforms" if report.conforms else "does not conform"
    counts = f"{report.count('passed')} passed, {report.count('failed')} failed"
    return f"{name} {verdict}: {counts}, {report.count('refused')} refused as declared."


def _unshown(outcome: Outcome) -> None:
    """Leave it to the document."""


def _show(outcome: Outcome) -> None:
    if outcome.state == "failed":
        print_failure(f"{outcome.name}: {outcome.reason}")
        return
    is_passed = outcome.state == "passed"
    mark = styled("ok", fg="green") if is_passed else styled("--", fg="yellow")
    name = outcome.name.ljust(NAME_WIDTH)
    said = duration(outcome.milliseconds) if is_passed else one_line(outcome.reason)
    click.echo(f"  {mark}  {name} {styled(said, dim=True)}".rstrip())
