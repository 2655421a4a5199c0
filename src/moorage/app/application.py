"""Opens sessions: reads the configuration, chooses the environment, closes in reverse order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec

from moorage.app.config import Configuration, load
from moorage.app.home import Home, find_home
from moorage.backends.backend import Placement
from moorage.backends.catalogue import load_backend
from moorage.backends.profile import LOCAL
from moorage.confine.code_places import check_code_apart, code_places
from moorage.errors import ConfigError
from moorage.extensions.catalogue import load_extension
from moorage.host.environments import Environment, forwarded, identity_of
from moorage.host.record import CallLog
from moorage.host.session import Session
from moorage.host.session_store import Selection, SessionStore, new_session_id
from moorage.policy.permission import PermissionMode, parse_mode
from moorage.policy.workspace_rules import check_apart

RECORD = "record.ndjson"
WORKER = "worker"


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for; the fields are the arguments of :func:`open_session`."""

    environment: str | None = None
    workspace: str | os.PathLike[str] | None = None
    mode: str | None = None
    session_id: str | None = None
    fork_of: str | None = None
    name: str = ""
    writable_roots: Sequence[str | os.PathLike[str]] = ()
    home: str | os.PathLike[str] | None = None
    extensions: Sequence[str] | None = None
    hands_over: bool | None = None


class SessionPlan:
    """What a session will be: checked, but with nothing kept or started yet."""

    def __init__(self, options: SessionOptions) -> None:
        """Check the options against the configuration and what is saved.

        Raises:
            ConfigError: an option or the configuration is impossible.
            NotFound: there is no such environment or session.
        """
        self._options = options
        self._home = find_home(options.home)
        self._configuration = load(self._home)
        self._store = SessionStore(self._home.sessions)
        self._is_new = options.session_id is None
        self._saved: Selection | None = None
        if options.session_id is not None:
            self._saved = self._store.load(options.session_id)
            selection = _reopened(self._saved, options)
        elif options.fork_of is not None:
            selection = forked(self._store.load(options.fork_of), name=options.name)
        else:
            selection = _selected(self._configuration, options)
        self.selection = regranted(selection, None, options.writable_roots)
        chosen = options.extensions
        names = self._configuration.extensions if chosen is None else chosen
        self.extensions = tuple(load_extension(name) for name in dict.fromkeys(names))
        wished = options.hands_over
        self.hands_over = self._configuration.hand_over if wished is None else wished
        self._stays = bool(options.name) or not self._is_new
        self.placement = self._placement(self.selection)

    def keep(self) -> Path:
        """Save the selection and return the session's folder."""
        self._home.close_to_others()
        if self._is_new:
            return self._store.create(self.selection)
        if self.selection != self._saved:
            # Else somebody who changes it meanwhile would lose the change.
            self._store.save(self.selection)
        return self._store.folder(self.selection.id)

    def regrant(
        self, saved: Selection, mode: str | None, roots: Sequence[str | os.PathLike[str]]
    ) -> tuple[Selection, Placement]:
        """Save a changed grant and return it with what the backend is to be asked for."""
        changed = regranted(saved, mode, roots)
        placement = self._placement(changed)
        self._store.save(changed)
        return changed, placement

    def fork(self, parent: Selection, *, name: str = "") -> AbstractAsyncContextManager[Session]:
        """Open a new session with the environment, the profile and the grants of another one."""
        forked = msgspec.structs.replace(
            self._options, session_id=None, name=name, fork_of=parent.id, writable_roots=()
        )
        return open_planned(SessionPlan(forked))

    def _placement(self, selection: Selection) -> Placement:
        placement = placement_of(self._home, self._configuration, selection)
        if not self._stays:
            return placement
        is_local = placement.profile.backend == "local"
        folder = worker_folder(self._home, selection.id) if is_local else None
        return msgspec.structs.replace(placement, stays=True, stays_in=folder)


@asynccontextmanager
async def open_session(  # noqa: PLR0913 - the one door of the library; every option has a default
    environment: str | None = None,
    *,
    workspace: str | os.PathLike[str] | None = None,
    mode: str | None = None,
    session_id: str | None = None,
    name: str = "",
    writable_roots: Sequence[str | os.PathLike[str]] = (),
    home: str | os.PathLike[str] | None = None,
    extensions: Sequence[str] | None = None,
    hands_over: bool | None = None,
) -> AsyncIterator[Session]:
    """Open a session in an environment and close it at the end, with all that it started.

    A local session with a name or an id stays: its worker, and what runs in the background, go on
    when the session is closed, and whoever opens it again meets them.

    Args:
        environment: name of a configured environment; the configured default when absent.
        workspace: local folder to work in, the current one by default; only with ``local``.
        mode: ``standard`` (the default), ``read_only`` or ``unconfined``.
        session_id: id or name of a session that exists; it keeps its saved environment.
        name: a name for the new session.
        writable_roots: more folders that tools and commands may write, chosen by the user; only
            with ``local``.
        home: Moorage's home; ``MOORAGE_HOME`` or the XDG folders by default.
        extensions: names of optional extensions to enable; those of the configuration by default.
        hands_over: whether slow commands of a model's ``bash`` go on in the background; the
            configuration's choice by default, which is yes.

    Raises:
        ConfigError: an argument or the configuration is impossible; nothing was started.
        ProvisionError: no environment could be had; raised by the first call.
    """
    options = SessionOptions(
        environment=environment,
        workspace=workspace,
        mode=mode,
        session_id=session_id,
        name=name,
        writable_roots=writable_roots,
        home=home,
        extensions=extensions,
        hands_over=hands_over,
    )
    async with open_planned(SessionPlan(options)) as session:
        yield session


@asynccontextmanager
async def open_planned(plan: SessionPlan) -> AsyncIterator[Session]:
    """Open the session that was planned; see :func:`open_session`."""
    backend = load_backend(plan.placement.profile.backend)
    forwarded(plan.placement.profile)  # Before anything of the session is kept.
    folder = plan.keep()
    log = CallLog(folder / RECORD)
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log.keep_synced)
            environment = Environment(backend, plan.placement, tasks)
            session = Session(plan.selection, environment, log, folder, keeper=plan, tasks=tasks)
            session.hands_over = plan.hands_over
            try:
                for extension in plan.extensions:
                    await session.extensions.enable(extension)
                yield session
            except Exception as error:  # noqa: BLE001 - raised again where no task group wraps it
                failure = error
            finally:
                with anyio.CancelScope(shield=True):
                    for close in (session.extensions.aclose, environment.aclose):
                        failure = await _closed(close, failure)
            tasks.cancel_scope.cancel()
    finally:
        log.close()
    if failure is not None:
        raise failure


def worker_folder(home: Home, session_id: str) -> Path:
    """Return where the worker of a session that stays is found, hidden from every command."""
    return home.sessions / session_id / WORKER


def regranted(
    selection: Selection, mode: str | None, writable_roots: Sequence[str | os.PathLike[str]]
) -> Selection:
    """Return the selection with another mode, or with more writable folders.

    Raises:
        ConfigError: there is no such mode or folder, or the session is not local.
    """
    if writable_roots and (selection.profile or LOCAL).backend != "local":
        raise ConfigError(
            f"no more folders can be made writable in the environment {selection.environment}: "
            "they are folders of this machine, which it does not have.",
            path="writable_roots",
            hint="Set host_workspace in its profile to mount a folder.",
        )
    added = [str(existing_folder(root, "writable_roots")) for root in writable_roots]
    return msgspec.structs.replace(
        selection,
        mode=selection.mode if mode is None else parse_mode(mode),
        writable_roots=tuple(dict.fromkeys([*selection.writable_roots, *added])),
    )


async def _closed(
    close: Callable[[], Awaitable[None]], failure: Exception | None
) -> Exception | None:
    """Close one part; return what is to be raised for the whole."""
    try:
        await close()
    except Exception as error:  # noqa: BLE001 - raised by the caller, beside what came before
        if failure is None:
            return error
        return ExceptionGroup("the session failed, and so did closing it", [failure, error])
    return failure


def _selected(configuration: Configuration, options: SessionOptions) -> Selection:
    chosen = options.environment or configuration.default_name()
    profile = configuration.profile(chosen)
    is_local = profile.backend == "local"
    if options.workspace is not None and not is_local:
        raise ConfigError(
            f"a workspace folder cannot be given for the environment {chosen}.",
            path="workspace",
            hint="Set host_workspace in its profile to mount a folder.",
        )
    return Selection(
        id=new_session_id(),
        environment=chosen,
        workspace=str(_local_workspace(options.workspace)) if is_local else profile.workspace,
        mode=parse_mode(options.mode or ""),
        created_at=datetime.now(UTC),
        name=options.name,
        profile=None if profile == LOCAL else profile,
        writable_roots=configuration.writable_roots if is_local else (),
    )


def forked(parent: Selection, *, name: str) -> Selection:
    """Return the selection of a new session that is chosen as another one was."""
    return msgspec.structs.replace(
        parent, id=new_session_id(), name=name, created_at=datetime.now(UTC)
    )


def _reopened(saved: Selection, options: SessionOptions) -> Selection:
    """Return the saved selection, which no option may contradict."""
    workspace, mode = options.workspace, options.mode
    if options.environment not in {None, saved.environment}:
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


def placement_of(home: Home, configuration: Configuration, selection: Selection) -> Placement:
    """Return what the backend is asked for.

    Raises:
        ConfigError: a folder is missing, or overlaps Moorage's own.
    """
    profile = selection.profile or LOCAL
    hidden = tuple(str(path) for path in home.hidden_paths)
    if profile.backend == "local":
        existing_folder(selection.workspace, "workspace")
        _check_roots(selection)
        if selection.mode is not PermissionMode.UNCONFINED:
            check_apart((selection.workspace,), hidden)
            check_apart(selection.writable_roots, hidden, field="writable_roots")
        if selection.mode is PermissionMode.STANDARD:
            places = code_places()
            check_code_apart((selection.workspace,), places)
            check_code_apart(selection.writable_roots, places, field="writable_roots")
    choice = configuration.confinement
    identity = identity_of(str(home.state), selection.id, profile)
    return Placement(
        identity=identity,
        host_state=home.environments / identity,
        session=selection.id,
        profile=profile,
        workspace=selection.workspace,
        mode=selection.mode,
        writable_roots=selection.writable_roots,
        hidden_paths=hidden,
        worker_state=home.worker_state,
        confinement=choice.provider() if choice is not None else None,
    )


def _check_roots(selection: Selection) -> None:
    for root in selection.writable_roots:
        if not Path(root).is_dir():
            raise ConfigError(
                f"the folder {root}, which tools were allowed to write, is gone.",
                path="writable_roots",
                hint="Make it again, or take it out of the configuration or of the session "
                f"(`moorage session set {selection.id} --not-writable {root}`).",
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
