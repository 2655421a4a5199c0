"""Opens sessions: reads the configuration, chooses the environment, and closes all in reverse order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from moorage.app.config import Configuration, load
from moorage.app.home import Home, find_home
from moorage.backends.backend import Placement
from moorage.backends.catalogue import load_backend
from moorage.backends.profile import LOCAL
from moorage.errors import ConfigError
from moorage.host.environments import Environment, identity_of
from moorage.host.record import CallLog
from moorage.host.session import Session
from moorage.host.session_store import Selection, SessionStore, new_session_id
from moorage.policy.permission import PermissionMode, parse_mode
from moorage.policy.workspace_rules import check_apart

RECORD = "record.ndjson"


@asynccontextmanager
async def open_session(
    environment: str | None = None,
    *,
    workspace: str | os.PathLike[str] | None = None,
    mode: str | None = None,
    session_id: str | None = None,
    name: str = "",
    writable_roots: Sequence[str | os.PathLike[str]] = (),
    home: str | os.PathLike[str] | None = None,
) -> AsyncIterator[Session]:
    """Open a session in an environment and close it, with all that it started, at the end.

    Args:
        environment: name of a configured environment; the configured default when absent.
        workspace: local folder to work in, the current one by default; only with ``local``.
        mode: ``standard`` (the default), ``read_only`` or ``unconfined``.
        session_id: id or name of a session that exists; it keeps its saved environment.
        name: a name for the new session.
        writable_roots: more folders that tools and commands may write, chosen by the user.
        home: Moorage's home; ``MOORAGE_HOME`` or the XDG folders by default.

    Raises:
        ConfigError: an argument or the configuration is impossible; nothing was started.
        ProvisionError: no environment could be had; raised by the first call.
    """
    plan = plan_session(
        environment,
        workspace=workspace,
        mode=mode,
        session_id=session_id,
        name=name,
        writable_roots=writable_roots,
        home=home,
    )
    folder = _kept(plan.store, plan.selection, is_new=session_id is None)
    async with _opened(plan.selection, plan.placement, folder) as session:
        yield session


class SessionPlan(NamedTuple):
    """What a session will be, before anything is kept or started."""

    store: SessionStore
    selection: Selection
    placement: Placement


def plan_session(
    environment: str | None = None,
    *,
    workspace: str | os.PathLike[str] | None = None,
    mode: str | None = None,
    session_id: str | None = None,
    name: str = "",
    writable_roots: Sequence[str | os.PathLike[str]] = (),
    home: str | os.PathLike[str] | None = None,
) -> SessionPlan:
    """Check the arguments of ``open_session`` and return what they choose; nothing is changed.

    Raises:
        ConfigError: an argument or the configuration is impossible.
    """
    place = find_home(home)
    configuration = load(place)
    store = SessionStore(place.sessions)
    if session_id is not None:
        selection = _reopened(store.load(session_id), environment, workspace, mode)
    else:
        selection = _selected(configuration, environment, workspace, mode, name)
    selection = _with_roots(selection, writable_roots)
    return SessionPlan(store, selection, _placement(place, configuration, selection))


@asynccontextmanager
async def _opened(
    selection: Selection, placement: Placement, folder: Path
) -> AsyncIterator[Session]:
    log = CallLog(folder / RECORD)
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log.keep_synced)
            backend = load_backend(placement.profile.backend)
            environment = Environment(backend, placement, tasks)
            try:
                yield Session(selection, environment, log, folder)
            except Exception as error:  # raised again outside, where no task group wraps it
                failure = error
            finally:
                with anyio.CancelScope(shield=True):
                    failure = await _closed(environment, failure)
            tasks.cancel_scope.cancel()
    finally:
        log.close()
    if failure is not None:
        raise failure


async def _closed(environment: Environment, failure: Exception | None) -> Exception | None:
    """Close the environment; return what is to be raised for the whole."""
    try:
        await environment.aclose()
    except Exception as error:
        if failure is None:
            return error
        return ExceptionGroup("the session failed, and so did closing it", [failure, error])
    return failure


def _selected(
    configuration: Configuration,
    environment: str | None,
    workspace: str | os.PathLike[str] | None,
    mode: str | None,
    name: str,
) -> Selection:
    chosen = environment or configuration.default_name()
    profile = configuration.profile(chosen)
    if profile.backend != "local" and workspace is not None:
        raise ConfigError(
            f"a workspace folder cannot be given for the environment {chosen}.",
            path="workspace",
            hint="Set host_workspace in its profile to mount a folder.",
        )
    inside = str(_local_workspace(workspace)) if profile.backend == "local" else profile.workspace
    return Selection(
        id=new_session_id(),
        environment=chosen,
        workspace=inside,
        mode=parse_mode(mode or ""),
        created_at=datetime.now(UTC),
        name=name,
        profile=None if profile == LOCAL else profile,
        writable_roots=configuration.writable_roots,
    )


def _reopened(
    saved: Selection,
    environment: str | None,
    workspace: str | os.PathLike[str] | None,
    mode: str | None,
) -> Selection:
    """Return the saved selection, narrowed to ``mode`` when that is given."""
    if environment is not None and environment != saved.environment:
        raise ConfigError(
            f"session {saved.id} belongs to the environment {saved.environment}.",
            hint="Open a new session for another environment.",
        )
    if workspace is not None and str(_local_workspace(workspace)) != saved.workspace:
        raise ConfigError(
            f"session {saved.id} belongs to the workspace {saved.workspace}.",
            hint="Open a new session for another workspace.",
        )
    if mode is not None and parse_mode(mode) is not saved.mode:
        raise ConfigError(
            f"session {saved.id} has the permission mode {saved.mode.value}.",
            hint=f"Change it with `moorage session set {saved.id} --mode {mode}`.",
        )
    return saved


def _with_roots(
    selection: Selection, writable_roots: Sequence[str | os.PathLike[str]]
) -> Selection:
    added = [str(existing_folder(root, "writable_roots")) for root in writable_roots]
    roots = tuple(dict.fromkeys([*selection.writable_roots, *added]))
    return msgspec.structs.replace(selection, writable_roots=roots)


def _kept(store: SessionStore, selection: Selection, *, is_new: bool) -> Path:
    if is_new:
        return store.create(selection)
    store.save(selection)
    return store.folder(selection.id)


def _placement(home: Home, configuration: Configuration, selection: Selection) -> Placement:
    profile = selection.profile or LOCAL
    hidden = tuple(str(path) for path in home.hidden_paths)
    if profile.backend == "local":
        existing_folder(selection.workspace, "workspace")
        if selection.mode is not PermissionMode.UNCONFINED:
            check_apart((selection.workspace, *selection.writable_roots), hidden)
    choice = configuration.confinement
    return Placement(
        identity=identity_of(str(home.state), selection.id, profile),
        session=selection.id,
        profile=profile,
        workspace=selection.workspace,
        mode=selection.mode,
        writable_roots=selection.writable_roots,
        hidden_paths=hidden,
        worker_state=home.worker_state,
        confinement=choice.command if choice is not None else (),
    )


def _local_workspace(workspace: str | os.PathLike[str] | None) -> Path:
    try:
        return existing_folder(Path.cwd() if workspace is None else workspace, "workspace")
    except FileNotFoundError as error:
        raise ConfigError("the current folder is gone.", path="workspace") from error


def existing_folder(path: str | os.PathLike[str], field: str) -> Path:
    """Return the resolved path of a folder that exists and can be read.

    Raises:
        ConfigError: it does not, or cannot; ``field`` names the argument.
    """
    folder = Path(os.path.realpath(path))
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise ConfigError(f"{str(path)!r} {problem}.", path=field, hint="Name a folder.")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ConfigError(f"{str(path)!r} cannot be read.", path=field, hint="Change its mode.")
    return folder
