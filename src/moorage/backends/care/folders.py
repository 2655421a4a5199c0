"""Looks after the environments of Apptainer: folders on this machine, and workers unpacked here."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread

from moorage.backends.apptainer import installed_program
from moorage.backends.backend import Placement
from moorage.backends.bundle import find_bundle
from moorage.backends.care.caretaker import Caretaker, Leftover, Territory
from moorage.backends.occupied import is_occupied
from moorage.backends.profile import Profile
from moorage.backends.transport_variables import transport_variables
from moorage.errors import BackendUnavailable, ProvisionError, ShutdownIncomplete
from moorage.process.leftovers import remove_tree

LOOK_SECONDS = 20.0
PARTS = ("workspace", "home")


class FolderCaretaker:
    """Looks after the folders that containers were started with."""

    place = "engine"

    async def reach(self, profile: Profile) -> str:
        """Return which program is installed."""
        del profile
        program = installed_program()
        try:
            with anyio.fail_after(LOOK_SECONDS):
                ended = await anyio.run_process(
                    [program, "--version"],
                    check=False,
                    stderr=subprocess.STDOUT,
                    env=transport_variables(),
                )
        except (OSError, TimeoutError) as error:
            raise BackendUnavailable(f"{program} does not start: {error}.") from error
        return ended.stdout.decode("utf-8", "replace").strip()

    async def leftovers(self, territory: Territory) -> list[Leftover]:
        """Return folders of hosts that are gone, and unpacked workers that nothing starts."""
        ours = {each.identity: each for each in territory.placements if _is_ours(each)}
        found = [
            Leftover(
                kind="folder",
                name=str(placement.host_state),
                backend="singularity",
                reason="its host is gone",
                created_at=_changed_at(placement.host_state),
                identity=identity,
                session=placement.session,
                is_retained=placement.is_retained,
            )
            for identity, placement in ours.items()
            if _has_parts(placement.host_state) and not is_occupied(placement.host_state)
        ]
        return found + _old_bundles(territory, list(ours.values()))

    async def remove(self, leftover: Leftover, territory: Territory) -> None:
        """Remove a folder with what is in it."""
        placement = territory.of(leftover.identity)
        if leftover.kind == "bundle" or placement is None:
            await _remove(Path(leftover.name))
        else:
            await self.discard(placement)

    async def discard(self, placement: Placement) -> None:
        """Remove the workspace and the home of an environment."""
        for part in PARTS:
            await _remove(placement.host_state / part)


def _is_ours(placement: Placement) -> bool:
    return placement.profile.backend == "singularity"


def _has_parts(host_state: Path) -> bool:
    return any((host_state / part).is_dir() for part in PARTS)


def _old_bundles(territory: Territory, ours: list[Placement]) -> list[Leftover]:
    """Return unpacked workers of former versions, unless a container may have one mounted."""
    folder = territory.environments / "bundles"
    if not folder.is_dir() or any(is_occupied(each.host_state) for each in ours):
        return []
    try:
        current = find_bundle().sha256[:24]
    except ProvisionError:
        current = ""
    return [
        Leftover(
            kind="bundle",
            name=str(each),
            backend="singularity",
            reason="an unpacked worker that nothing starts",
            created_at=_changed_at(each),
        )
        for each in sorted(folder.iterdir())
        if each.is_dir() and not each.is_symlink() and each.name != current
    ]


def _changed_at(folder: Path) -> str:
    return datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")


async def _remove(folder: Path) -> None:
    try:
        await anyio.to_thread.run_sync(remove_tree, folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ShutdownIncomplete(
            f"{folder} could not be removed: {error}.",
            hint="Remove it by hand, perhaps as another user.",
        ) from error


CARETAKER: Caretaker = FolderCaretaker()
