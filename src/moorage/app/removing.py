"""What goes with a session that is removed: its environment, unless others may be in it."""

from __future__ import annotations

import anyio

from moorage.app.application import placement_of
from moorage.app.config import load
from moorage.app.home import Home
from moorage.app.pruning import remove_folder
from moorage.app.sessions import forget_session, remove_session
from moorage.backends.backend import Placement
from moorage.backends.care.caretaker import load_caretaker
from moorage.backends.catalogue import load_backend
from moorage.backends.occupied import vacant
from moorage.errors import BackendUnavailable, ConfigError, ExecutionError, NotFound
from moorage.host.session_store import SessionStore


def remove_with_environment(home: Home, session: str, *, is_forced: bool = False) -> str:
    """Remove a session with its environment; a shared one stays, and only its worker ends.

    ``is_forced`` removes the session even where its environment cannot be removed; what is to be
    said of that is returned, and nothing otherwise.

    Raises:
        NotFound: there is no such session.
        BackendUnavailable: its environment cannot be reached, or is in use; everything is kept.
        ShutdownIncomplete: something of it could not be ended or removed; the session is kept.
    """
    placement = _placement(home, session)
    if placement is None:
        remove_session(home, session)
        return ""
    said = ""
    try:
        anyio.run(_let_go, placement)
    except ExecutionError as error:
        if not is_forced:
            kept = "The session is kept; --force removes its record alone."
            error.hint = f"{error.hint} {kept}".strip()
            raise
        said = f"the environment of {session} may still be there: {error.message}"
    forget_session(home, session)
    return said


def _placement(home: Home, session: str) -> Placement | None:
    """Return where a session is, or None: here, or its record is damaged and does not tell."""
    try:
        selection = SessionStore(home.sessions).load(session)
    except NotFound:
        raise
    except ConfigError:
        return None
    if selection.profile is None or selection.profile.backend == "local":
        return None
    return placement_of(home, load(home), selection)


async def _let_go(placement: Placement) -> None:
    if placement.profile.shared:
        if placement.token_folder.is_dir():
            await load_backend(placement.profile.backend).end_worker(placement)
            await remove_folder(placement.token_folder)
        return
    with vacant(placement.host_state) as is_vacant:
        if not is_vacant:
            raise BackendUnavailable(
                f"session {placement.session} is open in another program.",
                hint="Close it there first.",
            )
        caretaker = load_caretaker(placement.profile.backend)
        if placement.provisioned.exists() and caretaker is not None:
            await caretaker.discard(placement)
        await remove_folder(placement.host_state)
