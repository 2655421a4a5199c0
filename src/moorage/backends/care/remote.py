"""Looks after folders on other machines, which their workers remove unless those were killed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from moorage.backends.attaching import DEFAULT_IDLE_SECONDS
from moorage.backends.backend import Placement
from moorage.backends.care.caretaker import Caretaker, Leftover, Territory
from moorage.backends.engine import last_line
from moorage.backends.occupied import is_occupied, last_used
from moorage.backends.profile import Profile
from moorage.backends.ssh import SshBackend, unreachable
from moorage.errors import ShutdownIncomplete

_IDENTITY = re.compile(r"moorage-[0-9a-f]{32}")


class CareLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take."""

    look_seconds: float = 30.0
    remove_seconds: float = 120.0
    """A workspace may be large, and its disk slow."""

    spare_seconds: float = 60.0
    """For a worker whose idle time is over, to end and to remove its folder."""


class RemoteCaretaker:
    """Looks at the machines that sessions of this home were on, and at no others."""

    place = "host"

    def __init__(self, limits: CareLimits | None = None) -> None:
        """Reach machines as sessions do."""
        self._ssh = SshBackend()
        self._limits = limits or CareLimits()

    async def reach(self, profile: Profile) -> str:
        """Log in and out again."""
        await self._said(profile, "exit 0")
        return profile.host

    async def leftovers(self, territory: Territory) -> list[Leftover]:
        """Return folders whose host is gone and whose worker is gone as well, or should be."""
        ours = [each for each in territory.placements if self._is_over(each)]
        found: list[Leftover] = []
        for placements in _by_machine(ours):
            profile = placements[0].profile
            roots = {self._ssh.root(each): each for each in placements}
            there = await self._said(profile, _which_are_there(roots))
            found += [_leftover(root, roots[root]) for root in there.splitlines() if root in roots]
        return found

    async def remove(self, leftover: Leftover, territory: Territory) -> None:
        """Remove a folder there."""
        placement = territory.of(leftover.identity)
        if placement is not None:
            await self.discard(placement)

    async def discard(self, placement: Placement) -> None:
        """End the worker and remove its folder."""
        if not _IDENTITY.fullmatch(placement.identity):
            raise ShutdownIncomplete(f"{placement.identity!r} names no folder of Moorage.")
        await self._said(placement.profile, "exit 0")
        await self._ssh.end_worker(placement)
        await self._said(placement.profile, f"rm -rf -- {shlex.quote(self._ssh.root(placement))}")

    def _is_over(self, placement: Placement) -> bool:
        """Return whether nobody is to find the worker of an environment again."""
        if placement.profile.backend != "ssh" or is_occupied(placement.host_state):
            return False
        used = last_used(placement.host_state)
        if used is None:
            return False
        idle = placement.profile.lifetime_seconds or DEFAULT_IDLE_SECONDS
        return datetime.now(UTC) - used > timedelta(seconds=idle + self._limits.spare_seconds)

    async def _said(self, profile: Profile, script: str) -> str:
        """Return what a script printed there.

        Raises:
            BackendUnavailable: the machine cannot be reached.
            ShutdownIncomplete: the script failed.
        """
        command = f"exec /bin/sh -c {shlex.quote(script)}"
        seconds = self._limits.remove_seconds if "rm " in script else self._limits.look_seconds
        answer = await self._ssh.ask(profile, command, seconds=seconds)
        complaint = answer.stderr.decode("utf-8", "replace")
        if answer.returncode == 255:
            raise unreachable(profile.host, complaint)
        if answer.returncode != 0:
            raise ShutdownIncomplete(
                f"on {profile.host}, something is left: {last_line(complaint)}",
                hint="Remove it there by hand.",
            )
        return answer.stdout.decode("utf-8", "surrogateescape")


def _by_machine(placements: Iterable[Placement]) -> list[list[Placement]]:
    machines: dict[tuple[str, int, str, str], list[Placement]] = {}
    for each in placements:
        profile = each.profile
        key = (profile.host, profile.port, profile.identity_file, profile.known_hosts_file)
        machines.setdefault(key, []).append(each)
    return list(machines.values())


def _which_are_there(folders: Iterable[str]) -> str:
    """Return a script that prints those of the folders that exist."""
    words = " ".join(shlex.quote(folder) for folder in folders)
    return f'for d in {words}; do [ -d "$d" ] && printf "%s\\n" "$d"; done; exit 0'


def _leftover(root: str, placement: Placement) -> Leftover:
    used = last_used(placement.host_state)
    return Leftover(
        kind="folder",
        name=f"{placement.profile.host}:{root}",
        backend="ssh",
        reason="its host is gone",
        created_at="" if used is None else used.isoformat(timespec="seconds"),
        identity=placement.identity,
        session=placement.session,
        is_retained=placement.is_retained,
    )


CARETAKER: Caretaker = RemoteCaretaker()
