"""The command backend: a program of the user's own provisions the environment and serves it.

It is started without a shell and speaks the protocol on its standard streams. It is trusted with
all that its user may do, and it alone enforces the limits of its profile.
"""

from __future__ import annotations

import msgspec

from moorage.backends.backend import Backend, Placement
from moorage.backends.grace import grace_seconds
from moorage.backends.profile import Profile
from moorage.backends.transport_variables import transport_variables
from moorage.confine.private_folders import make_private
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

_PREFIXES = ("MOORAGE_EXECUTION", "WUU_EXECUTION")
"""The second one is what adapters of other hosts of this protocol read."""


class CommandBackend:
    """Starts the adapter that a profile names, and leaves everything else to it."""

    name = "command"

    def keeps_worker(self, placement: Placement) -> bool:
        """Return that it does not: what an adapter leaves standing is for the adapter to find."""
        del placement
        return False

    def root(self, placement: Placement) -> str:
        """Return the workspace that the profile names."""
        return placement.profile.workspace

    async def open_transport(self, placement: Placement) -> Transport:
        """Start the adapter.

        Raises:
            BackendUnavailable: the program is missing or cannot be started.
        """
        make_private(placement.host_state)
        return await ChildTransport.start(
            placement.profile.command,
            variables=adapter_variables(placement),
            grace_seconds=grace_seconds(placement.profile),
        )

    async def end_worker(self, placement: Placement) -> None:
        """Do nothing: no worker outlives its adapter as far as this host knows."""

    async def release(self, placement: Placement) -> None:
        """Do nothing: the adapter let go of the environment when its input ended."""


def adapter_variables(placement: Placement) -> dict[str, str]:
    """Return all the variables that the adapter gets.

    What the profile forwards is not among them: it travels in the binding, for the commands.
    """
    told = {
        "PROFILE": profile_text(placement.profile),
        "ID": placement.identity,
        "SESSION": placement.session,
        "STATE": str(placement.host_state),
    }
    ours = {f"{prefix}_{name}": value for prefix in _PREFIXES for name, value in told.items()}
    return transport_variables() | ours


def profile_text(profile: Profile) -> str:
    """Return the profile as JSON: its workspace, and every field that is not at its default."""
    fields = {"workspace": profile.workspace} | msgspec.to_builtins(profile)
    return msgspec.json.encode(fields).decode()


BACKEND: Backend = CommandBackend()
