"""How the server opens the sessions that its options describe, and what it says to a person."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from moorage.app.application import SessionOptions, SessionPlan, open_planned
from moorage.app.home import find_home
from moorage.errors import ConfigError, NotFound
from moorage.mcp_server.options import Options
from moorage.mcp_server.server import Place
from moorage.mcp_server.sessions import Opener, ToolSession


def plan_of(options: Options, session_id: str | None = None) -> SessionPlan:
    """Return what the options choose, or the same in a session that exists; nothing is started.

    A session's name that is not taken yet is for a new session.

    Raises:
        ConfigError: the options or the configuration are impossible.
    """
    if options.session_id and options.session_name:
        raise ConfigError("a session is chosen by its id or by its name, not by both.")
    chosen = SessionOptions(
        environment=options.environment,
        workspace=options.workspace,
        mode=options.mode,
        session_id=session_id or options.session_id or None,
        writable_roots=options.writable_roots,
        home=options.home,
        extensions=options.extensions,
        hands_over=options.hands_over,
    )
    name = options.session_name
    if chosen.session_id is not None or not name:
        return SessionPlan(chosen)
    try:
        return SessionPlan(msgspec.structs.replace(chosen, session_id=name))
    except NotFound:
        return SessionPlan(msgspec.structs.replace(chosen, name=name))


def place_of(plan: SessionPlan) -> Place:
    """Return where the tools of a planned session act."""
    chosen = plan.selection
    return Place(
        environment=chosen.environment,
        workspace=chosen.workspace,
        mode=chosen.mode,
        specs=tuple(spec for each in plan.extensions for spec in each.specs),
        guidance="\n\n".join(each.guidance for each in plan.extensions),
    )


def session_opener(options: Options) -> Opener:
    """Return the opener of the sessions that the options choose."""

    @asynccontextmanager
    async def open_one(session_id: str | None) -> AsyncIterator[ToolSession]:
        async with open_planned(plan_of(options, session_id)) as session:
            yield session

    return open_one


def default_token_file(options: Options) -> Path:
    """Return where the bearer token lies when the options name no file: in Moorage's home."""
    return find_home(options.home).state / "mcp" / "bearer-token"


def check_token_place(token_file: Path, plan: SessionPlan) -> None:
    """Return when no confined command can reach the file.

    Raises:
        ConfigError: it lies in a folder that tools of the workspace can read and change.
    """
    roots = (plan.selection.workspace, *plan.selection.writable_roots)
    resolved = Path(os.path.realpath(token_file))
    for root in roots:
        if resolved.is_relative_to(os.path.realpath(root)):
            raise ConfigError(
                f"the token file {token_file} lies in {root}, where every tool can read it.",
                hint="Keep it outside, or leave the option out.",
            )


def announce(sentence: str) -> None:
    """Tell the person who started the server; standard output belongs to the protocol."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def log_to_stderr() -> None:
    """Send warnings to standard error, unless someone has set up logging already."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="moorage: %(levelname)s: %(message)s"
    )
