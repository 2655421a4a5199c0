"""What dead hosts left behind, in environments of every kind: found, and removed when told to."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import anyio.to_thread
import msgspec

from moorage.app.application import placement_of
from moorage.app.config import Configuration, load
from moorage.app.home import Home
from moorage.backends.backend import Placement
from moorage.backends.care.caretaker import Leftover, Territory, caretakers, load_caretaker
from moorage.backends.occupied import is_occupied, last_used, note_of, vacant
from moorage.errors import ExecutionError, NotFound, ShutdownIncomplete
from moorage.host.environments import identity_of
from moorage.host.session_store import SessionStore
from moorage.policy.permission import PermissionMode
from moorage.process.leftovers import remove_tree

MEMORY = "memory"
"""The kind of a host's own folder of an environment, which outlived its session."""

_IDENTITY = re.compile(r"moorage-[0-9a-f]{32}")


class Prunable(msgspec.Struct, frozen=True, kw_only=True):
    """What can be removed, how much is retained, and where nothing could be found out."""

    leftovers: list[Leftover]
    retained: list[Leftover]
    """What is kept because its profile says so; it goes only when it is named."""

    problems: list[str]


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """How one removal went; ``problem`` is empty when it is gone."""

    leftover: Leftover
    problem: str = ""


async def find_leftovers(home: Home, retained: Sequence[str] = ()) -> Prunable:
    """Return what is there for hosts that are not.

    ``retained`` names environments that are kept and are to go nevertheless: by identity, by
    session, or all those of a configured environment.

    Raises:
        NotFound: nothing has one of the names.
        ConfigError: the configuration cannot be read.
    """
    configuration = load(home)
    known = list(_known(home, configuration))
    named = _named(home, known, retained)
    # Whether a retained one is still there is asked only when it is to go.
    asked = [each for each in known if not each.is_retained or each.identity in named]
    territory = Territory(environments=home.environments, placements=asked)
    found: list[Leftover] = _memories(home, known)
    problems = []
    for backend in caretakers():
        try:
            found += await _left_with(backend, territory)
        except ExecutionError as error:
            if _is_used(backend, known, configuration):
                problems.append(str(error))
    return Prunable(
        leftovers=[each for each in found if not each.is_retained or each.identity in named],
        retained=[each for each in found if each.is_retained and each.identity not in named],
        problems=problems,
    )


async def remove_leftovers(home: Home, leftovers: Iterable[Leftover]) -> AsyncIterator[Removal]:
    """Remove what was found, one after the other, and yield how each removal went."""
    known = list(_known(home, load(home)))
    territory = Territory(environments=home.environments, placements=known)
    # What a host remembers goes last: until then it tells what else there is.
    for leftover in sorted(leftovers, key=lambda each: each.kind == MEMORY):
        try:
            await _remove(leftover, territory)
        except ExecutionError as error:
            yield Removal(leftover=leftover, problem=str(error))
        else:
            yield Removal(leftover=leftover)


async def remove_folder(folder: Path) -> None:
    """Remove a folder of the host's own; one that is gone is no failure.

    Raises:
        ShutdownIncomplete: it is still there.
    """
    try:
        await anyio.to_thread.run_sync(remove_tree, folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ShutdownIncomplete(
            f"{folder} could not be removed: {error}.", hint="Remove it by hand."
        ) from error


async def _remove(leftover: Leftover, territory: Territory) -> None:
    host_state = territory.environments / leftover.identity
    with vacant(host_state) if leftover.identity else nullcontext(True) as is_vacant:
        if not is_vacant:
            raise ShutdownIncomplete("a session has been opened in it again; it was left alone.")
        if leftover.kind == MEMORY:
            await remove_folder(host_state)
        elif (caretaker := load_caretaker(leftover.backend)) is not None:
            await caretaker.remove(leftover, territory)


async def _left_with(backend: str, territory: Territory) -> list[Leftover]:
    caretaker = load_caretaker(backend)
    return [] if caretaker is None else await caretaker.leftovers(territory)


def _is_used(backend: str, known: list[Placement], configuration: Configuration) -> bool:
    """Return whether this home has anything to do with a backend."""
    profiles = configuration.execution_environments.profiles.values()
    configured = {each.get("backend") for each in profiles if isinstance(each, dict)}
    return backend in configured | {each.profile.backend for each in known}


def _known(home: Home, configuration: Configuration) -> Iterator[Placement]:
    """Yield every environment of this home once: those of sessions, and those without one."""
    told = set()
    for selection in SessionStore(home.sessions).all():
        if selection.profile is None or selection.profile.backend == "local":
            continue
        placement = placement_of(home, configuration, selection)
        if placement.identity not in told:
            told.add(placement.identity)
            yield placement
    for folder in _folders(home):
        note = note_of(folder)
        if folder.name not in told and note is not None:
            yield Placement(
                identity=folder.name,
                session=note.session,
                profile=note.profile,
                workspace=note.profile.workspace,
                mode=PermissionMode.STANDARD,
                worker_state=home.worker_state,
                host_state=folder,
            )


def _folders(home: Home) -> list[Path]:
    return sorted(each for each in home.environments.glob("moorage-*") if each.is_dir())


def _memories(home: Home, known: list[Placement]) -> list[Leftover]:
    """Return the folders of environments whose sessions are gone."""
    sessions = {each.id for each in SessionStore(home.sessions).all()}
    by_identity = {each.identity: each for each in known}
    found = []
    for folder in _folders(home):
        placement = by_identity.get(folder.name)
        if (placement is not None and placement.session in sessions) or is_occupied(folder):
            continue
        used = last_used(folder)
        found.append(
            Leftover(
                kind=MEMORY,
                name=str(folder),
                backend="" if placement is None else placement.profile.backend,
                reason="its session is gone",
                created_at="" if used is None else used.isoformat(timespec="seconds"),
                identity=folder.name,
                session="" if placement is None else placement.session,
                # Without a note of what it was, files in it are taken for kept.
                is_retained=(folder / "workspace").exists()
                if placement is None
                else placement.is_retained,
            )
        )
    return found


def _named(home: Home, known: list[Placement], names: Sequence[str]) -> set[str]:
    """Return the identities of the environments that are meant by names.

    Raises:
        NotFound: a name means none.
    """
    by_name: dict[str, set[str]] = {}
    for placement in known:
        by_name.setdefault(placement.session, set()).add(placement.identity)
    for selection in SessionStore(home.sessions).all():
        if selection.profile is not None:
            identity = identity_of(str(home.state), selection.id, selection.profile)
            for called in (selection.id, selection.name, selection.environment):
                by_name.setdefault(called, set()).add(identity)
    found = set()
    for name in names:
        # A container may have outlived all that is known of it here.
        meant = {name} if _IDENTITY.fullmatch(name) else by_name.get(name)
        if not meant:
            raise NotFound(
                f"no session, environment or container is called {name!r}.",
                hint="See `moorage session list` and `moorage env list`.",
            )
        found |= meant
    return found
