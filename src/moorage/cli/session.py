"""``moorage session``: what is kept of sessions, and what the user grants them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import click
import msgspec

import moorage
from moorage.app.home import Home, find_home
from moorage.app.removing import remove_with_environment
from moorage.app.sessions import (
    SessionSummary,
    configure_session,
    fork_session,
    list_sessions,
    read_record,
    stop_session,
)
from moorage.cli import exit_codes
from moorage.cli.parameters import Folder, WholeNumber
from moorage.cli.record_view import body, heading, is_change
from moorage.cli.render import count, print_fields, print_json, print_note, print_table, styled
from moorage.cli.session_options import MODES, complete_sessions
from moorage.errors import ConfigError, NotFound

EPILOG = """\b
Examples:
  moorage session list
  moorage session show ID --full
  moorage session set ID --mode unconfined
  moorage session set ID --writable ~/.cache/pip
  moorage session stop ID
  moorage session rm ID
  moorage session rm --older-than 30
"""

_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}

session_argument = click.argument("session", metavar="ID", shell_complete=complete_sessions)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(epilog=EPILOG)
def command() -> None:
    """List, show, change and remove saved sessions."""


@command.command("list")
@click.option(
    "-n", "--last", default=20, show_default=True, metavar="COUNT", type=WholeNumber(0),
    help="How many of the latest to show; 0 shows all.",
)  # fmt: skip
@json_option
def list_saved(last: int, *, as_json: bool) -> int:
    """List saved sessions, the latest last."""
    found = list_sessions(find_home())
    shown = found[-last:] if last else found
    if as_json:
        print_json(shown)
        return exit_codes.OK
    if not found:
        print_note("no sessions are saved; moorage run -- COMMAND makes one.")
        return exit_codes.OK
    columns = ("ID", "NAME", "ENVIRONMENT", "MODE", "CALLS", "WORKER", "UPDATED", "WORKSPACE")
    print_table(columns, [_row(summary) for summary in shown])
    if len(shown) < len(found):
        print_note(f"{count(len(found) - len(shown), 'older session')} not shown; --last 0 does.")
    return exit_codes.OK


def _row(summary: SessionSummary) -> tuple[str, ...]:
    return (
        summary.id,
        summary.name,
        summary.environment,
        summary.mode,
        str(summary.calls),
        str(summary.worker_pid or "-"),
        f"{summary.updated_at.astimezone():%Y-%m-%d %H:%M}",
        summary.workspace,
    )


@command.command()
@session_argument
@click.option("--full", "is_full", is_flag=True, help="Show the whole output of every call.")
@json_option
def show(session: str, *, is_full: bool, as_json: bool) -> int:
    """Show a session and every call of its record."""
    home = find_home()
    calls = read_record(home, session)
    summary = next(each for each in list_sessions(home) if session in {each.id, each.name})
    if as_json:
        print_json({"session": summary, "calls": list(calls)})
        return exit_codes.OK
    print_fields(
        {
            "session": f"{summary.id} {summary.name}",
            "environment": summary.environment,
            "workspace": summary.workspace,
            "mode": summary.mode,
            "writable": ", ".join(summary.writable_roots) or "the workspace only",
            "worker": f"process {summary.worker_pid}" if summary.worker_pid else "none runs",
        }
    )
    for number, call in enumerate(calls, start=1):
        click.echo(f"\n{styled(heading(number, call), bold=True)}")
        for line in body(call, is_full=is_full):
            colour = _DIFF_COLOURS.get(line[:1]) if is_change(call) else None
            click.echo(f"     {styled(line, fg=colour)}".rstrip())
    return exit_codes.OK


@command.command("rm")
@click.argument("sessions", metavar="[ID]...", nargs=-1, shell_complete=complete_sessions)
@click.option(
    "--older-than", "days", metavar="DAYS", type=WholeNumber(0),
    help="Remove every session that nothing was called in for so many days.",
)  # fmt: skip
@click.option(
    "--force", "is_forced", is_flag=True,
    help="Remove a session also where its environment cannot be removed with it.",
)  # fmt: skip
@json_option
def remove(sessions: tuple[str, ...], days: int | None, *, is_forced: bool, as_json: bool) -> int:
    """Remove what is kept of sessions: records, artifacts and, of local sessions, full logs.

    A session that still has a worker is ended first, with everything that runs in it. Damaged
    sessions go as well. Workspaces on this machine stay as they are; the container or the remote
    folder of a session goes with it, unless it is shared.
    """
    if bool(sessions) == (days is not None):
        raise click.UsageError("Name sessions, or say --older-than DAYS.")
    home = find_home()
    if days is not None:
        sessions = _unused_for(timedelta(days=days), list_sessions(home))
    for session in sessions:
        _check_is_kept(home, session)
    left = [remove_with_environment(home, session, is_forced=is_forced) for session in sessions]
    problems = [problem for problem in left if problem]
    if as_json:
        print_json({"removed": sessions, "left": problems})
        return exit_codes.OK
    for problem in problems:
        print_note(problem)
    print_note(f"removed {count(len(sessions), 'session')}.")
    return exit_codes.OK


def _check_is_kept(home: Home, session: str) -> None:
    """Return unless nothing has this name, so that nothing is removed when one name is wrong.

    Raises:
        NotFound: there is no such session.
    """
    try:
        read_record(home, session)
    except NotFound:
        raise
    except ConfigError:
        # What is damaged can be removed; nothing else helps it.
        return


def _unused_for(age: timedelta, found: list[SessionSummary]) -> tuple[str, ...]:
    limit = datetime.now(UTC) - age
    return tuple(each.id for each in found if each.updated_at <= limit)


@command.command()
@click.argument(
    "sessions", metavar="ID...", nargs=-1, required=True, shell_complete=complete_sessions
)
@json_option
def stop(sessions: tuple[str, ...], *, as_json: bool) -> int:
    """End the workers of sessions, with everything that runs in them.

    The sessions stay; the next call in one starts a new worker.
    """
    home = find_home()
    for session in sessions:
        _check_is_kept(home, session)
    stopped = [session for session in sessions if stop_session(home, session)]
    if as_json:
        print_json({"stopped": stopped})
    else:
        print_note(f"ended {count(len(stopped), 'worker')}.")
    return exit_codes.OK


@command.command()
@session_argument
@json_option
def restart(session: str, *, as_json: bool) -> int:
    """End the worker of a session, with everything that runs in it, and start a new one.

    The new one has the session's present grants, and the variables of this terminal.
    """
    home = find_home()
    _check_is_kept(home, session)
    was_running = stop_session(home, session)
    session_id = anyio.run(_start, session)
    if as_json:
        print_json({"session": session_id, "was_running": was_running})
    else:
        print_note(f"started a new worker for {session_id}.")
    return exit_codes.OK


async def _start(session: str) -> str:
    async with moorage.open_session(session_id=session) as opened:
        await opened.capabilities()
        return opened.id


@command.command()
@session_argument
@click.option("--name", default="", metavar="NAME", help="A name for the new session.")
@json_option
def fork(session: str, name: str, *, as_json: bool) -> int:
    """Make a new session with the environment and the grants of another one.

    It gets an environment of its own, unless the profile is shared. A local workspace is the same.
    """
    made = fork_session(find_home(), session, name=name)
    if as_json:
        print_json({"id": made.id, "name": made.name, "fork_of": session})
    else:
        click.echo(made.id)
    return exit_codes.OK


@command.command("set")
@session_argument
@click.option("-m", "--mode", type=click.Choice(MODES), metavar="MODE", help="Its new mode.")
@click.option(
    "--writable", "writable_roots", metavar="DIR", multiple=True, type=Folder(),
    help="One more folder that it may write; repeatable.",
)  # fmt: skip
@click.option(
    "--not-writable", "removed_roots", metavar="DIR", multiple=True, type=Folder(),
    help="A folder that it may not write any more; repeatable.",
)  # fmt: skip
@json_option
def configure(
    session: str,
    mode: str | None,
    writable_roots: tuple[str, ...],
    removed_roots: tuple[str, ...],
    *,
    as_json: bool,
) -> int:
    """Change what a session may do. Only you can: no tool and no model reaches this.

    It counts from the session's next opening. A worker that still runs is ended, with everything
    that runs in it.
    """
    if mode is None and not (writable_roots or removed_roots):
        raise click.UsageError(
            "Say what to change: --mode MODE, --writable DIR or --not-writable DIR."
        )
    changed = configure_session(
        find_home(),
        session,
        mode=mode,
        add_writable_roots=writable_roots,
        remove_writable_roots=removed_roots,
    )
    if as_json:
        print_json(msgspec.structs.asdict(changed))
        return exit_codes.OK
    print_fields(
        {
            "session": changed.id,
            "mode": changed.mode.value,
            "writable": ", ".join(changed.writable_roots) or "the workspace only",
        }
    )
    return exit_codes.OK
