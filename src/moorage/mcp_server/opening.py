"""How the server opens the sessions that its options describe, and what it says to a person."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from moorage.app.application import SessionOptions, SessionPlan, open_session
from moorage.app.home import find_home
from moorage.errors import ConfigError, NotFound
from moorage.mcp_server.options import Options
from moorage.mcp_server.server import Place
from moorage.mcp_server.sessions import Opener, ToolSession


def plan_of(options: Options) -> SessionPlan:
    """Return what the options choose; nothing is started or kept.

    Raises:
        ConfigError: the options or the configuration are impossible.
    """
    if options.session_id and options.session_name:
        raise ConfigError("a session is chosen by its id or by its name, not by both.")
    saved = _saved_session(options)
    if saved is None:
        return SessionPlan(SessionOptions(**_new(options)))
    return SessionPlan(SessionOptions(**_again(options, saved)))


def place_of(plan: SessionPlan) -> Place:
    """Return where the tools of a planned session act."""
    chosen = plan.selection
    return Place(environment=chosen.environment, workspace=chosen.workspace, mode=chosen.mode)


def session_opener(options: Options) -> Opener:
    """Return the opener of the sessions that the options choose."""

    @asynccontextmanager
    async def open_one(session_id: str | None) -> AsyncIterator[ToolSession]:
        saved = session_id or _saved_session(options)
        arguments = _new(options) if saved is None else _again(options, saved)
        async with open_session(**arguments) as session:
            yield session

    return open_one


def _new(options: Options) -> dict[str, Any]:
    return {
        "environment": options.environment,
        "workspace": options.workspace,
        "mode": options.mode,
        "name": options.session_name or "",
        "writable_roots": options.writable_roots,
        "home": options.home,
    }


def _again(options: Options, saved: str) -> dict[str, Any]:
    return {**_new(options), "session_id": saved}


def _saved_session(options: Options) -> str | None:
    """Return the session to go on with; a name that is not taken yet is for a new one."""
    if options.session_id:
        return options.session_id
    if not options.session_name:
        return None
    try:
        SessionPlan(SessionOptions(session_id=options.session_name, home=options.home))
    except NotFound:
        return None
    return options.session_name


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
