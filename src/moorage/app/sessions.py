"""What a user can see and change of saved sessions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import anyio
import msgspec

from moorage.app.application import RECORD, WORKER, forked, placement_of, regranted, worker_folder
from moorage.app.config import load
from moorage.app.home import Home
from moorage.backends.catalogue import load_backend
from moorage.backends.ending import end_worker, running_pid
from moorage.backends.kept_token import has_token
from moorage.errors import ConfigError
from moorage.host.environments import identity_of
from moorage.host.record import CallRecord, read_calls
from moorage.host.session_store import Selection, SessionStore


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One saved session, as a list shows it."""

    id: str
    name: str
    environment: str
    workspace: str
    mode: str
    writable_roots: tuple[str, ...]
    created_at: datetime
    updated_at: datetime
    calls: int
    worker_pid: int | None = None
    """The worker that stays for it, when one runs."""


def list_sessions(home: Home) -> list[SessionSummary]:
    """Return the saved sessions, oldest first."""
    store = SessionStore(home.sessions)
    return [summary_of(store, selection) for selection in store.all()]


def summary_of(store: SessionStore, selection: Selection) -> SessionSummary:
    """Return what a list shows of one session."""
    record = store.folder(selection.id) / RECORD
    has_record = record.exists()
    updated = (
        datetime.fromtimestamp(record.stat().st_mtime, UTC) if has_record else selection.created_at
    )
    return SessionSummary(
        id=selection.id,
        name=selection.name,
        environment=selection.environment,
        workspace=selection.workspace,
        mode=selection.mode.value,
        writable_roots=selection.writable_roots,
        created_at=selection.created_at,
        updated_at=updated,
        calls=record.read_bytes().count(b"\n") if has_record else 0,
        worker_pid=running_pid(store.folder(selection.id) / WORKER),
    )


def living_sessions(home: Home) -> list[Selection]:
    """Return the sessions whose worker runs, or may run where its environment is kept."""
    store = SessionStore(home.sessions)
    return [each for each in store.all() if _may_live(home, store, each)]


def _may_live(home: Home, store: SessionStore, selection: Selection) -> bool:
    profile = selection.profile
    if profile is None or profile.backend == "local":
        return running_pid(store.folder(selection.id) / WORKER) is not None
    if not (profile.persistent or profile.shared):
        return False
    identity = identity_of(str(home.state), selection.id, profile)
    return has_token(home.environments / identity / selection.id)


def read_record(home: Home, session: str) -> Iterator[CallRecord]:
    """Yield the calls of the session with this id or name.

    Raises:
        ConfigError: there is no such session.
    """
    store = SessionStore(home.sessions)
    return read_calls(store.folder(store.load(session).id) / RECORD)


def remove_session(home: Home, session: str) -> None:
    """End a session and delete what is kept of it: record, artifacts and full logs.

    Its environment stays; :func:`moorage.app.removing.remove_with_environment` has it go, too.

    Raises:
        NotFound: no session has this id or name.
        ShutdownIncomplete: its worker had to be ended by force; everything is still there.
    """
    stop_session(home, session)
    forget_session(home, session)


def forget_session(home: Home, session: str) -> None:
    """Delete what is kept of a session here, and end nothing.

    Raises:
        NotFound: no session has this id or name.
    """
    session_id = SessionStore(home.sessions).remove(session)
    for folder in home.worker_state.glob(f"*/{session_id}"):
        shutil.rmtree(folder)
        with suppress(OSError):
            folder.parent.rmdir()


def fork_session(home: Home, session: str, *, name: str = "") -> Selection:
    """Keep a new session that is chosen as another one was; nothing is started.

    Raises:
        NotFound: there is no such session.
        ConfigError: the name is taken.
    """
    store = SessionStore(home.sessions)
    selection = forked(store.load(session), name=name)
    store.create(selection)
    return selection


def stop_session(home: Home, session: str) -> bool:
    """End the worker of the session with this id or name; return whether one ran.

    Everything that it runs ends with it; what is kept of the session stays.

    Raises:
        NotFound: there is no such session.
        ShutdownIncomplete: it had to be ended by force.
        ProvisionError: its environment cannot be reached.
    """
    store = SessionStore(home.sessions)
    session_id = store.id_of(session)
    try:
        selection = store.load(session_id)
    except ConfigError:
        # It is damaged, and may still have a worker here.
        return end_worker(worker_folder(home, session_id))
    if selection.profile is None or selection.profile.backend == "local":
        return end_worker(worker_folder(home, session_id))
    return anyio.run(_end_elsewhere, home, selection)


async def _end_elsewhere(home: Home, selection: Selection) -> bool:
    """End the worker of a session whose environment is not local, if there may be one."""
    placement = placement_of(home, load(home), selection)
    backend = load_backend(placement.profile.backend)
    if not (backend.keeps_worker(placement) and has_token(placement.token_folder)):
        return False
    await backend.end_worker(placement)
    return True


def configure_session(
    home: Home,
    session: str,
    *,
    mode: str | None = None,
    add_writable_roots: Sequence[str | os.PathLike[str]] = (),
    remove_writable_roots: Sequence[str | os.PathLike[str]] = (),
) -> Selection:
    """Change what the user granted a session; it counts from the session's next opening.

    A worker that stays for it has the old grants: it is ended, with everything that it runs.

    Raises:
        NotFound: there is no such session.
        ConfigError: there is no such mode or folder, or the session could not be opened with it.
        ShutdownIncomplete: the worker had to be ended by force; the change is saved.
    """
    store = SessionStore(home.sessions)
    saved = store.load(session)
    gone = {os.path.realpath(root) for root in remove_writable_roots}
    kept = tuple(root for root in saved.writable_roots if root not in gone)
    narrowed = msgspec.structs.replace(saved, writable_roots=kept)
    changed = regranted(narrowed, mode, add_writable_roots)
    placement_of(home, load(home), changed)
    store.save(changed)
    if changed != saved:
        end_worker(worker_folder(home, saved.id))
    return changed
