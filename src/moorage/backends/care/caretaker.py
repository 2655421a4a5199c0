"""Who looks after the environments of a backend: what a caretaker can do, and which there are."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from moorage.backends.backend import Placement
from moorage.backends.profile import Profile

_MODULES = {
    "docker": "moorage.backends.care.containers",
    "ssh": "moorage.backends.care.remote",
    "singularity": "moorage.backends.care.folders",
    "command": "moorage.backends.care.adapters",
    "local": "moorage.backends.care.here",
}


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is there for a host that is not."""

    kind: str
    """container, volume, folder or bundle."""

    name: str
    backend: str
    reason: str
    owner: str = ""
    created_at: str = ""
    identity: str = ""
    """The environment that it belongs to; empty where it belongs to none."""

    session: str = ""
    is_retained: bool = False


class Territory(msgspec.Struct, frozen=True, kw_only=True):
    """What one home knows of its environments."""

    environments: Path
    """The folder that holds one folder per environment."""

    placements: Sequence[Placement]
    """One per saved session that is not local, and per environment whose session is gone."""

    def of(self, identity: str) -> Placement | None:
        """Return what is known of an environment."""
        return next((each for each in self.placements if each.identity == identity), None)


class Caretaker(Protocol):
    """Looks after the environments of one backend."""

    place: str
    """What has to be reached before anything else: the engine, the host, ..."""

    async def reach(self, profile: Profile) -> str:
        """Return what the place that has to be reached says of itself.

        Raises:
            BackendUnavailable: it cannot be reached.
        """
        ...

    async def leftovers(self, territory: Territory) -> list[Leftover]:
        """Return what is there for hosts that are not, retained or not.

        Raises:
            BackendUnavailable: it cannot be found out.
        """
        ...

    async def remove(self, leftover: Leftover, territory: Territory) -> None:
        """Remove what was found; it may have gone meanwhile.

        Raises:
            ShutdownIncomplete: it is still there.
            BackendUnavailable: it cannot be reached.
        """
        ...

    async def discard(self, placement: Placement) -> None:
        """End the worker of an environment and remove all that is in it, retained or not.

        The host's own folder stays, for it remembers that the environment was there.

        Raises:
            ShutdownIncomplete: something is still there.
            BackendUnavailable: it cannot be reached.
        """
        ...


def load_caretaker(backend: str) -> Caretaker | None:
    """Return who looks after the environments of a backend, or None: this version has nobody."""
    if backend not in _MODULES:
        return None
    caretaker: Caretaker = importlib.import_module(_MODULES[backend]).CARETAKER
    return caretaker


def caretakers() -> tuple[str, ...]:
    """Return the backends whose environments are looked after."""
    return tuple(_MODULES)
