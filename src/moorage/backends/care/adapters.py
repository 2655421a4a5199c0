"""Looks after the environments of adapters, as far as it can: what they keep is theirs."""

from __future__ import annotations

import shutil

from moorage.backends.backend import Placement
from moorage.backends.care.caretaker import Caretaker, Leftover, Territory
from moorage.backends.profile import Profile
from moorage.errors import BackendUnavailable


class AdapterCaretaker:
    """Knows of no more than the program."""

    place = "adapter"

    async def reach(self, profile: Profile) -> str:
        """Return where the adapter's program is."""
        found = shutil.which(profile.command[0])
        if found is None:
            raise BackendUnavailable(
                f"the adapter {profile.command[0]!r} is not there, or may not be executed.",
                hint="Correct `command` in the profile.",
            )
        return found

    async def leftovers(self, territory: Territory) -> list[Leftover]:
        """Return nothing: only the adapter knows."""
        del territory
        return []

    async def remove(self, leftover: Leftover, territory: Territory) -> None:
        """Do nothing."""

    async def discard(self, placement: Placement) -> None:
        """Do nothing: only the adapter could."""


CARETAKER: Caretaker = AdapterCaretaker()
