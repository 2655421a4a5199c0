"""Looks after the local environment, of which nothing is ever left over but its sessions."""

from __future__ import annotations

import platform

from moorage.backends.backend import Placement
from moorage.backends.care.caretaker import Caretaker, Leftover, Territory
from moorage.backends.profile import Profile


class LocalCaretaker:
    """Has nothing to look after: a workspace here is the user's own."""

    place = "machine"

    async def reach(self, profile: Profile) -> str:
        """Return which machine this is."""
        del profile
        return f"{platform.system()} {platform.release()}"

    async def leftovers(self, territory: Territory) -> list[Leftover]:
        """Return nothing."""
        del territory
        return []

    async def remove(self, leftover: Leftover, territory: Territory) -> None:
        """Do nothing."""

    async def discard(self, placement: Placement) -> None:
        """Do nothing."""


CARETAKER: Caretaker = LocalCaretaker()
