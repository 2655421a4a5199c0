"""Looks after containers, and after the volumes that the worker was delivered in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from moorage.backends.backend import Placement
from moorage.backends.bundle import find_bundle
from moorage.backends.care.caretaker import Caretaker, Leftover, Territory
from moorage.backends.container import (
    LABEL_IDENTITY,
    LABEL_OWNER,
    LABEL_RETAINED,
    LABEL_STATE,
    owner,
)
from moorage.backends.delivery import LABEL_BUNDLE
from moorage.backends.engine import Engine, last_line
from moorage.backends.occupied import is_occupied
from moorage.backends.profile import Profile
from moorage.errors import ProvisionError, ShutdownIncomplete

Described = dict[str, Any]


class ContainerCaretaker:
    """Looks after what one engine holds."""

    place = "engine"

    def __init__(self, program: str) -> None:
        """Use the engine of this name."""
        self._engine = Engine(program)

    async def reach(self, profile: Profile) -> str:
        """Return the version of the engine."""
        del profile
        await self._engine.check_running()
        words = ("version", "--format", "{{.Server.Version}}")
        answer = await self._engine.ask(*words, seconds=self._engine.limits.look_seconds)
        return f"{self._engine.program} {answer.output.decode().strip()}"

    async def leftovers(self, territory: Territory) -> list[Leftover]:
        """Return containers whose host is gone, and volumes that no container uses."""
        listed = await self._described("container", f"ps --all --filter=label={LABEL_IDENTITY}")
        containers = [found for each in listed if (found := _container(each, territory))]
        gone = {each.name for each in containers if not each.is_retained}
        volumes = await self._described("volume", f"volume ls --filter=label={LABEL_BUNDLE}")
        unused = [each for each in volumes if not await self._is_needed(each, gone)]
        return containers + [_volume(each) for each in unused]

    async def remove(self, leftover: Leftover, territory: Territory) -> None:
        """Remove a container with what is in it, or a volume."""
        if leftover.kind == "volume":
            await self._remove("volume", "rm", leftover.name)
            for file in (territory.environments / "bundles").glob(f"{leftover.name}*"):
                with suppress(OSError):
                    file.unlink()
            return
        await self._remove("rm", "--force", "--volumes", leftover.name)
        if not leftover.is_retained:
            with suppress(OSError):
                (territory.environments / leftover.identity / "provisioned").unlink()

    async def discard(self, placement: Placement) -> None:
        """Remove the container, unless it is somebody else's."""
        found = await self._engine.inspect("container", placement.identity)
        if found is None:
            return
        labels = _labels(found)
        if labels.get(LABEL_OWNER) != owner() or labels.get(LABEL_IDENTITY) != placement.identity:
            raise ShutdownIncomplete(
                f"the container {placement.identity} is not of this Moorage; it was left alone."
            )
        await self._remove("rm", "--force", "--volumes", placement.identity)

    async def _described(self, kind: str, listing: str) -> list[Described]:
        seconds = self._engine.limits.look_seconds
        names = await self._listed(*listing.split(), "--quiet")
        if not names:
            return []
        # One that went meanwhile is missing in the answer, and the others are there.
        answer = await self._engine.ask(kind, "inspect", *names, seconds=seconds)
        described: list[Described] = msgspec.json.decode(answer.output)
        return described

    async def _listed(self, *words: str) -> list[str]:
        failing = "what the engine holds cannot be listed"
        seconds = self._engine.limits.look_seconds
        listed = await self._engine.order(*words, seconds=seconds, failing=failing)
        return listed.decode().split()

    async def _is_needed(self, volume: Described, gone: set[str]) -> bool:
        """Return whether a container that stays has a volume, or the next one is to have it."""
        try:
            if (volume.get("Labels") or {}).get(LABEL_BUNDLE) == find_bundle().sha256:
                return True
        except ProvisionError:
            pass  # There is no portable worker here any more, so that nothing else needs it.
        users = await self._listed(
            "ps", "--all", f"--filter=volume={volume['Name']}", "--format={{.Names}}"
        )
        return not gone.issuperset(users)

    async def _remove(self, *words: str) -> None:
        answer = await self._engine.ask(*words, seconds=self._engine.limits.remove_seconds)
        if answer.exit_code != 0 and "no such" not in answer.complaint.lower():
            await self._engine.check_running()
            raise ShutdownIncomplete(
                f"{words[-1]} could not be removed: {last_line(answer.complaint)}"
            )


def _labels(container: Described) -> dict[str, str]:
    return (container.get("Config") or {}).get("Labels") or {}


def _container(found: Described, territory: Territory) -> Leftover | None:
    """Return a container as what a host has left, or None where it is not ours or is used."""
    labels = _labels(found)
    state = Path(labels.get(LABEL_STATE, ""))
    identity = labels.get(LABEL_IDENTITY, "")
    is_of_this_home = os.path.realpath(state.parent) == os.path.realpath(territory.environments)
    # The home of a host at another machine cannot be seen from here, and is not gone for that.
    is_lost = not state.parent.exists()
    if labels.get(LABEL_OWNER) != owner() or not (is_of_this_home or is_lost):
        return None
    if is_occupied(state):
        return None
    placement = territory.of(identity) if is_of_this_home else None
    retained = labels.get(LABEL_RETAINED)
    return Leftover(
        kind="container",
        name=str(found["Name"]).removeprefix("/"),
        backend="docker",
        reason="its home is gone" if is_lost else "its host is gone",
        owner=labels[LABEL_OWNER],
        created_at=str(found.get("Created", "")),
        identity=identity,
        session=placement.session if placement is not None else "",
        # One that does not say is taken for kept.
        is_retained=retained != "no",
    )


def _volume(found: Described) -> Leftover:
    return Leftover(
        kind="volume",
        name=str(found["Name"]),
        backend="docker",
        reason="no container uses this worker",
        created_at=str(found.get("CreatedAt", "")),
    )


CARETAKER: Caretaker = ContainerCaretaker("docker")
