"""``moorage doctor``: what this machine can do, what it enforces, and how to mend the rest."""

from __future__ import annotations

import platform
from importlib import metadata
from textwrap import wrap

import anyio
import click
import msgspec

import moorage
from moorage.app.config import load
from moorage.app.home import find_home
from moorage.cli import exit_codes
from moorage.cli.machine import Finding, Machine, ProbeLimits, State
from moorage.cli.render import duration, one_line, print_failure, print_json, styled
from moorage.cli.trial_place import TrialPlace, trial_place
from moorage.confine import call_filter, landlock
from moorage.confine.attacks import ATTACKS
from moorage.confine.report import GAPS, NOT_ENFORCED_BY_A_PROVIDER, not_enforced
from moorage.confine.selftest import SelfTest, run_self_tests
from moorage.errors import ExecutionError

EPILOG = """\b
Examples:
  moorage doctor
  moorage doctor --json | jq -r '.findings[] | select(.state != "ok") | .fix'

\b
Exit code: 0 when a confined local workspace works on this machine, 1 when it does not.
"""

LIMITS = ProbeLimits()
TEXT_COLUMNS = 100
NOT_PROTECTED = (
    "What no environment protects (extensions, adapters, images, leftovers after a crash and more) "
    "is listed in docs/not-protected.md."
)

_COLOURS: dict[str, str] = {"ok": "green", "limited": "yellow", "missing": "red"}
_OWNED_UP_TO = {attack.name: attack.gap for attack in ATTACKS if attack.gap}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that doctor found out.

    ``not_enforced`` names what the confinement leaves open on this kernel, with a sentence each.
    ``provider`` is the program that confines in place of the kernel, where the user configured one.
    """

    version: str
    python: str
    platform: str
    is_fine: bool
    main_path: Finding
    findings: list[Finding]
    self_tests: list[SelfTest]
    not_enforced: dict[str, str]
    provider: str = ""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> int:
    """Say what this machine can do, and the one command that mends what is missing."""
    provider = configured_provider()
    # The attacks are against launchers that the kernel confines: of a provider they say nothing.
    report = anyio.run(examine, [] if provider else attack(), provider)
    if as_json:
        print_json(report)
    else:
        show(report)
    return exit_codes.OK if report.is_fine else exit_codes.FAILED


def configured_provider() -> str:
    """Return the program that the user has confine commands; empty when the kernel does."""
    try:
        choice = load(find_home()).confinement
    except ExecutionError:  # the main path meets it again, and tells
        return ""
    return choice.provider().argv[0] if choice is not None else ""


def attack() -> list[SelfTest]:
    """Let confined commands attack the confinement; attacks that cannot be tried prove nothing."""
    try:
        return run_self_tests()
    except ExecutionError as error:
        return [SelfTest(name="try the attacks", is_enforced=False, detail=str(error))]


async def examine(self_tests: list[SelfTest], provider: str = "") -> Report:
    """Look at the machine and use its main path."""
    findings = await Machine(limits=LIMITS).look()
    main_path = await use_main_path()
    gaps: tuple[str, ...] = NOT_ENFORCED_BY_A_PROVIDER
    if not provider:
        gaps = not_enforced(landlock.abi(), are_calls_filtered=call_filter.is_known())
    return Report(
        version=metadata.version("moorage"),
        python=platform.python_version(),
        platform=platform.platform(),
        is_fine=main_path.state == "ok" and not breaches(self_tests),
        main_path=main_path,
        findings=findings,
        self_tests=self_tests,
        not_enforced={gap: GAPS[gap] for gap in gaps},
        provider=provider,
    )


def breaches(self_tests: list[SelfTest]) -> list[SelfTest]:
    """Return the attacks that came through although the confinement promises to stop them."""
    return [test for test in self_tests if not (test.is_enforced or test.name in _OWNED_UP_TO)]


async def use_main_path() -> Finding:
    """Open a confined local session in a temporary place and run one command there."""
    started = anyio.current_time()
    state: State = "missing"
    fix = ""
    try:
        with trial_place() as place, anyio.fail_after(LIMITS.main_path_seconds):
            await _run_one_command(place)
        taken = duration((anyio.current_time() - started) * 1000)
        state, detail = "ok", f"a confined local session ran a command, {taken}"
    except ExecutionError as error:
        detail, fix = error.message, error.hint
    except TimeoutError:
        detail = f"no answer within {LIMITS.main_path_seconds:g} s"
    return Finding(name="main path", state=state, detail=detail, fix=fix, is_required=True)


async def _run_one_command(place: TrialPlace) -> None:
    workspace, home, _ = place
    async with moorage.open_session("local", workspace=workspace, home=home) as session:
        ended = await session.run("echo it works > proof && cat proof")
    if ended.exit_code != 0 or ended.stdout != "it works\n":
        raise moorage.ToolFailed(f"a command ended with {ended.exit_code}: {ended.stderr}")


def show(report: Report) -> None:
    """Draw the report for a person."""
    click.echo(f"Moorage {report.version}, Python {report.python}, {report.platform}")
    _heading("This machine")
    for finding in report.findings:
        _show_finding(finding)
    _heading("Attacks that confined commands tried just now")
    if report.provider:
        _show_text("none: ", f"{report.provider} confines commands here, as the user configured.")
    for test in report.self_tests:
        _show_self_test(test)
    _heading("What the confinement leaves open here")
    for gap, sentence in report.not_enforced.items():
        _show_text(gap.replace("_", " ").ljust(17), sentence)
    _show_text("more".ljust(17), NOT_PROTECTED)
    _heading("Main path")
    _show_finding(report.main_path)
    click.echo()
    if report.is_fine:
        click.echo("A confined local workspace works here. Next: moorage demo")
    else:
        print_failure("a confined local workspace does not work here; see above what helps.")


def _heading(text: str) -> None:
    click.echo(f"\n{styled(text, bold=True)}")


def _show_finding(finding: Finding) -> None:
    word = styled(finding.state.ljust(9), fg=_COLOURS[finding.state])
    _show_text(f"{word}{finding.name.ljust(12)}", finding.detail, indent=21)
    if finding.fix and finding.state != "ok":
        _show_text(f"{' ' * 9}{'fix'.ljust(12)}", finding.fix)


def _show_self_test(test: SelfTest) -> None:
    if test.is_enforced:
        click.echo(f"  {styled('refused'.ljust(9), fg='green')}{one_line(test.name)}")
        return
    gap = _OWNED_UP_TO.get(test.name)
    word = styled("open".ljust(9), fg="red" if gap is None else "yellow")
    # The sentence of a gap stands below, once for all.
    detail = test.detail if gap is None else test.detail.removesuffix(GAPS[gap])
    _show_text(word, f"{test.name}: {detail}", indent=9)


def _show_text(lead: str, text: str, *, indent: int = 0) -> None:
    """Write a lead and a text that goes on below itself; ``indent`` is the lead's visible width."""
    column = (indent or len(lead)) + 2
    first, *more = wrap(one_line(text), TEXT_COLUMNS - column, break_on_hyphens=False) or [""]
    click.echo(f"  {lead}{first}".rstrip())
    for line in more:
        click.echo(f"{' ' * column}{line}")
