"""The options that choose a session, the same for every command that opens one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

import moorage
from moorage.cli.parameters import Folder
from moorage.cli.provisioning import progress_shown
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from moorage.host.session import Session

P = ParamSpec("P")
R = TypeVar("R")

MODES = tuple(mode.value for mode in PermissionMode)


@dataclass(frozen=True, kw_only=True)
class SessionChoice:
    """Which session a command wants: a new one in an environment, or a saved one."""

    environment: str | None = None
    workspace: str | None = None
    mode: str | None = None
    session_id: str | None = None
    name: str | None = None
    writable_roots: tuple[str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Return what was chosen as arguments of ``open_session``; the rest keeps its default."""
        if self.session_id and self.name:
            raise click.UsageError("Give --session for a saved session or --name for a new one.")
        named = {
            "environment": self.environment,
            "workspace": self.workspace,
            "mode": self.mode,
            "session_id": self.session_id,
            "name": self.name,
            "writable_roots": self.writable_roots,
        }
        return {name: value for name, value in named.items() if value}


def complete_environments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of configured environments that begin with ``incomplete``."""
    # Late: only completion reads the configuration here.
    from moorage.app.config import load  # noqa: PLC0415
    from moorage.app.home import find_home  # noqa: PLC0415

    return [name for name in load(find_home()).profile_names() if name.startswith(incomplete)]


def complete_sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of saved sessions that begin with ``incomplete``."""
    # Late: only completion reads the saved sessions here.
    from moorage.app.home import find_home  # noqa: PLC0415
    from moorage.app.sessions import list_sessions  # noqa: PLC0415

    return [each.id for each in list_sessions(find_home()) if each.id.startswith(incomplete)]


def place_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options that say where and how far: environment, workspace, mode, writable roots."""
    options = (
        click.option(
            "-e", "--env", "environment", metavar="NAME", shell_complete=complete_environments,
            help="Environment to work in; the configured default otherwise.",
        ),
        click.option(
            "-w", "--workspace", metavar="DIR", type=Folder(),
            help="Folder to work on; the current one otherwise.",
        ),
        click.option(
            "-m", "--mode", type=click.Choice(MODES), metavar="MODE",
            help=f"How far tools may reach: {', '.join(MODES)}; standard otherwise.",
        ),
        click.option(
            "--writable", "writable_roots", metavar="DIR", multiple=True, type=Folder(),
            help="One more folder that may be written; repeatable.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def session_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options that choose a session, and pass them on as one ``choice``."""

    def with_choice(**options: Any) -> R:
        fields = SessionChoice.__dataclass_fields__
        chosen = {name: options.pop(name) for name in list(options) if name in fields}
        return command(choice=SessionChoice(**chosen), **options)

    with_choice.__doc__ = command.__doc__
    with_choice.__name__ = command.__name__
    with_choice.__dict__.update(command.__dict__)
    with_session = click.option(
        "-s", "--session", "session_id", metavar="ID", shell_complete=complete_sessions,
        help="Go on in a saved session, by its id or name; its worker stays.",
    )(click.option(
        "--name", metavar="NAME", help="Begin a session of this name, whose worker stays.",
    )(with_choice))  # fmt: skip
    return place_options(with_session)


@asynccontextmanager
async def open_chosen(choice: SessionChoice) -> AsyncIterator[Session]:
    """Open the chosen session for the length of a block."""
    with progress_shown():
        async with moorage.open_session(**choice.arguments()) as session:
            yield session
