"""Finds the background process that a person names, in the sessions that live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio
import click

import moorage
from moorage.app.home import find_home
from moorage.app.sessions import living_sessions
from moorage.cli.session_options import complete_sessions
from moorage.errors import ConfigError, ExecutionError, InvalidArguments, NotFound

if TYPE_CHECKING:
    from moorage.host.session import Session
    from moorage.protocol.processes import ProcessRecord

F = TypeVar("F", bound=Callable[..., Any])

COMPLETION_SECONDS = 2.0


class Listed(NamedTuple):
    """One process and the session that it belongs to."""

    session_id: str
    name: str
    record: ProcessRecord

    @property
    def session(self) -> str:
        """Return what people call the session."""
        return self.name or self.session_id

    @property
    def qualified(self) -> str:
        """Return the name that no other process has."""
        return f"{self.session}/{self.record.id}"


class Unreachable(NamedTuple):
    """A session whose worker could not be asked, and why."""

    session_id: str
    error: ExecutionError


async def listed(session: str | None) -> tuple[list[Listed], list[Unreachable]]:
    """Return the processes of one session, or of all whose worker runs.

    One worker that cannot be asked does not hide the others.

    Raises:
        ExecutionError: one session was named, and it cannot be asked.
    """
    if session is not None:
        return await _listed(session), []
    found: list[Listed] = []
    unreachable: list[Unreachable] = []
    for each in living_sessions(find_home()):
        try:
            found += await _listed(each.id, each.name)
        except ExecutionError as error:
            unreachable.append(Unreachable(each.id, error))
    return found, unreachable


async def _listed(session: str, name: str = "") -> list[Listed]:
    async with moorage.open_session(session_id=session) as opened:
        label = name or (session if session != opened.id else "")
        return [Listed(opened.id, label, each) for each in await opened.processes.list()]


@asynccontextmanager
async def open_process(named: str) -> AsyncIterator[tuple[Session, ProcessRecord]]:
    """Open the session of the process that is named by ``ID`` or ``SESSION/ID``.

    Raises:
        NotFound: no session that lives has such a process, or there is no such session.
        ConfigError: several sessions have one.
    """
    session, _, process_id = named.rpartition("/")
    if not session:
        session = await _session_of(process_id)
    async with moorage.open_session(session_id=session) as opened:
        try:
            record = await opened.processes.get(process_id)
        except InvalidArguments as error:
            raise _unknown(process_id, f"in the session {session}") from error
        yield opened, record


async def _session_of(process_id: str) -> str:
    everything, unreachable = await listed(None)
    found = [each for each in everything if each.record.id == process_id]
    if len(found) > 1:
        raise ConfigError(
            f"several sessions have a process {process_id!r}.",
            hint=f"Name one of {', '.join(each.qualified for each in found)}.",
        )
    if found:
        return found[0].session_id
    not_asked = "".join(f" {each.session_id} was not asked: {each.error}" for each in unreachable)
    raise _unknown(process_id, f"in the sessions that live.{not_asked}".rstrip("."))


def _unknown(process_id: str, where: str) -> NotFound:
    return NotFound(f"there is no process {process_id!r} {where}.", hint="See `moorage ps`.")


def complete_processes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of processes that begin with ``incomplete``; nothing where none is found."""
    try:
        everything = anyio.run(_for_completion)
    except (ExecutionError, ExceptionGroup, OSError):
        return []
    names = [each.record.id for each in everything] + [each.qualified for each in everything]
    return [name for name in names if name.startswith(incomplete)] if incomplete else [
        each.record.id for each in everything
    ]  # fmt: skip


async def _for_completion() -> list[Listed]:
    with anyio.move_on_after(COMPLETION_SECONDS):
        return (await listed(None))[0]
    return []


def process_argument(command: F) -> F:
    """Add the argument that names one process."""
    return click.argument("process", metavar="PROCESS", shell_complete=complete_processes)(command)


def processes_argument(command: F) -> F:
    """Add the argument that names one process or more."""
    return click.argument(
        "names", metavar="PROCESS...", nargs=-1, required=True, shell_complete=complete_processes
    )(command)


def session_option(command: F) -> F:
    """Add the option that names one session."""
    return click.option(
        "-s", "--session", metavar="ID", shell_complete=complete_sessions,
        help="One session, by its id or name; otherwise all whose worker runs.",
    )(command)  # fmt: skip
