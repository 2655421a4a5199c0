"""Places for checks, made of a profile: a home of their own, and nothing of it left afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from moorage.app.application import open_session, placement_of
from moorage.app.config import load
from moorage.app.home import Home, find_home
from moorage.app.removing import remove_with_environment
from moorage.backends.backend import Placement
from moorage.backends.care.caretaker import load_caretaker
from moorage.errors import ConfigError, ExecutionError
from moorage.host.session import Session
from moorage.host.session_store import SessionStore
from moorage.testing.conformance.place import OpenSession
from moorage.testing.conformance.running import OpenPlace

NAME = "checked"


def places_of(profile: Mapping[str, Any]) -> OpenPlace:
    """Return what makes a place for each check in environments of this profile.

    Each place has a home, and for ``local`` and mounted profiles a folder, of its own, in the
    temporary folder; with ``command`` its workspace is a new folder below that of the profile. What
    the profile itself keeps or shares is left out: checks ask for that when they mean it.
    """
    return lambda: _place(dict(profile))


@asynccontextmanager
async def _place(profile: dict[str, Any]) -> AsyncIterator[OpenSession]:
    folder = Path(tempfile.mkdtemp(prefix="moorage-check-"))
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir()
    workspace.mkdir()
    fields = _alone(profile, folder)
    is_local = fields["backend"] == "local"

    def open_one(
        changes: dict[str, Any] | None = None, /, **options: Any
    ) -> AbstractAsyncContextManager[Session]:
        added = dict(changes or {})
        if is_local:
            # Its folder is always kept, and shared by all who name it.
            added = {key: added[key] for key in added if key not in {"persistent", "shared"}}
        profiles = {NAME: fields | added}
        document = {"execution_environments": {"default": NAME, "profiles": profiles}}
        (home / "config.json").write_bytes(msgspec.json.encode(document))
        if is_local and "session_id" not in options:
            options["workspace"] = workspace
        return open_session(home=home, **options)

    try:
        yield open_one
    finally:
        with anyio.CancelScope(shield=True):
            await _remove(find_home(home))
            shutil.rmtree(folder, ignore_errors=True)
            if fields["backend"] == "command":
                shutil.rmtree(fields["workspace"], ignore_errors=True)


def _alone(profile: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the profile for one place alone."""
    fields = {key: profile[key] for key in profile if key not in {"persistent", "shared"}}
    if fields.get("host_workspace"):
        fields["host_workspace"] = str(folder / "workspace")
    if fields.get("backend") == "command":
        below = PurePosixPath(fields.get("workspace", "/workspace"))
        fields["workspace"] = str(below / folder.name)
    return fields


async def _remove(home: Home) -> None:
    """Remove every session of a home, with its environment."""
    with suppress(ExecutionError):
        shared = _shared(home)
        for selection in SessionStore(home.sessions).all():
            remove = partial(remove_with_environment, home, selection.id, is_forced=True)
            await anyio.to_thread.run_sync(remove)
        for placement in shared:
            caretaker = load_caretaker(placement.profile.backend)
            if caretaker is not None and placement.provisioned.exists():
                await caretaker.discard(placement)


def _shared(home: Home) -> list[Placement]:
    """Return the shared environments of a home, each once."""
    found: dict[str, Placement] = {}
    for selection in SessionStore(home.sessions).all():
        if selection.profile is not None and selection.profile.shared:
            with suppress(ConfigError):
                placement = placement_of(home, load(home), selection)
                found[placement.identity] = placement
    return list(found.values())
