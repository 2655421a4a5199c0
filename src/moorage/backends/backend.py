"""The contract of a backend: open a transport to a worker, and let go of the place afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from moorage.backends.profile import Profile
from moorage.confine.provider import ConfinementProvider
from moorage.policy.permission import PermissionMode
from moorage.transports.transport import Transport


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend is asked to open: whose environment, where, and how wide."""

    identity: str
    session: str
    profile: Profile
    workspace: str
    mode: PermissionMode
    writable_roots: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    worker_state: Path
    confinement: ConfinementProvider | None = None
    stays_in: Path | None = None
    """The private folder of a local worker that outlives this host; none ends with its host."""


class Backend(Protocol):
    """One kind of place where tools can run."""

    name: str

    def root(self, placement: Placement) -> str:
        """Return the absolute path of the workspace inside the environment."""
        ...

    async def open_transport(self, placement: Placement) -> Transport:
        """Provision or adopt the environment, start its worker, and return the way to it.

        Raises:
            ProvisionError: no environment could be had; nothing ran.
        """
        ...

    async def end_worker(self, placement: Placement) -> None:
        """End the worker that would outlive this host, if there is one.

        Raises:
            ShutdownIncomplete: it had to be ended by force.
        """
        ...

    async def release(self, placement: Placement) -> None:
        """Let go of the environment after its transport closed in good order."""
        ...
