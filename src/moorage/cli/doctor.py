"""``moorage doctor``: what this machine can do, what it enforces, and how to mend the rest."""

from __future__ import annotations

import platform
from importlib import metadata

import anyio
import click
import msgspec

import moorage
from moorage.cli import exit_codes
from moorage.cli.machine import Finding, Machine, State
from moorage.cli.render import duration, one_line, print_failure, print_json, styled
from moorage.cli.trial_place import TrialPlace, trial_place
from moorage.confine.selftest import SelfTest, run_self_tests

EPILOG = """\b
Examples:
  moorage doctor
  moorage doctor --json | jq -r '.findings[] | select(.state != "ok") | .fix'

\b
Exit code: 0 when a confined local workspace works on this machine, 1 when it does not.
"""

MAIN_PATH_SECONDS = 60

_COLOURS: dict[str, str] = {"ok": "green", "limited": "yellow", "missing": "red"}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that doctor found out."""

    version: str
    python: str
    platform: str
    is_fine: bool
    main_path: Finding
    findings: list[Finding]
    self_tests: list[SelfTest]


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> int:
    """Say what this machine can do, and the one command that mends what is missing."""
    self_tests = run_self_tests()
    report = anyio.run(examine, self_tests)
    if as_json:
        print_json(report)
    else:
        show(report)
    return exit_codes.OK if report.is_fine else exit_codes.FAILED


async def examine(self_tests: list[SelfTest]) -> Report:
    """Look at the machine and use its main path."""
    findings = await Machine().look()
    main_path = await use_main_path()
    return Report(
        version=metadata.version("moorage"),
        python=platform.python_version(),
        platform=platform.platform(),
        is_fine=main_path.state == "ok",
        main_path=main_path,
        findings=findings,
        self_tests=self_tests,
    )


async def use_main_path() -> Finding:
    """Open a confined local session in a temporary folder and run one command there."""
    started = anyio.current_time()
    state: State = "missing"
    fix = ""
    try:
        with trial_place() as place, anyio.fail_after(MAIN_PATH_SECONDS):
            detail = await _run_one_command(place)
            taken = duration((anyio.current_time() - started) * 1000)
            state, detail = "ok", f"{detail}, {taken}"
    except moorage.ExecutionError as error:
        detail, fix = error.message, error.hint
    except TimeoutError:
        detail = f"no answer within {MAIN_PATH_SECONDS} s"
    return Finding(name="main path", state=state, detail=detail, fix=fix, is_required=True)


async def _run_one_command(place: TrialPlace) -> str:
    workspace, home, _ = place
    async with moorage.open_session("local", workspace=workspace, home=home) as session:
        ended = await session.run("echo it works > proof && cat proof")
    if ended.exit_code != 0 or ended.stdout != "it works\n":
        raise moorage.ToolFailed(f"a command ended with {ended.exit_code}: {ended.stderr}")
    return "a confined local session runs a command"


def show(report: Report) -> None:
    """Draw the report for a person."""
    click.echo(f"Moorage {report.version}, Python {report.python}, {report.platform}\n")
    click.echo(styled("This machine", bold=True))
    for finding in report.findings:
        _show_finding(finding)
    click.echo(f"\n{styled('Attacks that a confined command tried just now', bold=True)}")
    for test in report.self_tests:
        word, colour = ("refused", "green") if test.is_enforced else ("possible", "yellow")
        detail = "" if test.is_enforced else f"  {one_line(test.detail)}"
        click.echo(f"  {styled(word.ljust(9), fg=colour)}{one_line(test.name)}{detail}")
    click.echo(f"\n{styled('Main path', bold=True)}")
    _show_finding(report.main_path)
    click.echo()
    if report.is_fine:
        click.echo("A confined local workspace works here. Next: moorage demo")
    else:
        print_failure("a confined local workspace does not work here; see above what helps.")


def _show_finding(finding: Finding) -> None:
    word = styled(finding.state.ljust(9), fg=_COLOURS[finding.state])
    click.echo(f"  {word}{finding.name.ljust(12)}{one_line(finding.detail)}")
    if finding.fix and finding.state != "ok":
        click.echo(f"           {styled('fix:', bold=True)}{' ' * 8}{one_line(finding.fix)}")
