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

    host_state: Path
    """The host's own folder for this environment: what it must remember of it."""

    stays: bool = False
    """Whether the session has a name or an id to be opened again with."""

    @property
    def is_retained(self) -> bool:
        """Return whether the environment is kept when this host lets go of it."""
        return self.profile.persistent or self.profile.shared

    @property
    def token_folder(self) -> Path:
        """Return the private folder of the token that opens the session's worker."""
        return self.stays_in or self.host_state / self.session

    @property
    def provisioned(self) -> Path:
        """Return the file that stands as soon as the environment was there once."""
        return self.host_state / "provisioned"


class Backend(Protocol):
    """One kind of place where tools can run."""

    name: str

    def keeps_worker(self, placement: Placement) -> bool:
        """Return whether the worker outlives the way to it, for the next one to find."""
        ...

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
