"""Whether a host uses an environment just now, and what a dead one was using it for.

Each host holds a shared lock on one file of the environment's folder. The kernel lets go of it with
the host, however that ends; the note in the file stays.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec

from moorage.backends.backend import Placement
from moorage.backends.profile import Profile
from moorage.confine.private_folders import make_private
from moorage.errors import BackendUnavailable

NAME = "open"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class OccupationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for an environment that somebody is just removing."""

    wait_seconds: float = 30.0
    retry_seconds: float = 0.02


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment was used for last."""

    session: str
    profile: Profile
    since: datetime

    @property
    def is_retained(self) -> bool:
        """Return whether the environment is one that is kept."""
        return self.profile.persistent or self.profile.shared


async def occupy(placement: Placement, limits: OccupationLimits | None = None) -> int:
    """Return the descriptor that marks the environment as used, as long as it is open.

    Raises:
        BackendUnavailable: somebody has been removing it all the time.
    """
    bounds = limits or OccupationLimits()
    with anyio.move_on_after(bounds.wait_seconds):
        while True:
            make_private(placement.host_state)
            descriptor = _locked(placement.host_state / NAME, fcntl.LOCK_SH)
            if descriptor is not None:
                _leave_note(descriptor, placement)
                return descriptor
            await anyio.sleep(bounds.retry_seconds)
    raise BackendUnavailable(
        f"another program has been removing the environment of session {placement.session} for "
        f"{bounds.wait_seconds:g} s.",
        hint="Try again when it has ended.",
    )


@contextmanager
def vacant(host_state: Path) -> Iterator[bool]:
    """Tell whether no host uses the environment; none can begin to before the block ends."""
    if not host_state.is_dir():
        yield True
        return
    descriptor = _locked(host_state / NAME, fcntl.LOCK_EX)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_occupied(host_state: Path) -> bool:
    """Return whether a host uses the environment."""
    if not (host_state / NAME).exists():
        return False
    with vacant(host_state) as is_vacant:
        return not is_vacant


def note_of(host_state: Path) -> Note | None:
    """Return what the environment was used for last, or None where nothing readable tells."""
    try:
        return msgspec.json.decode((host_state / NAME).read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError):
        return None


def last_used(host_state: Path) -> datetime | None:
    """Return when a host last began to use the environment, or let go of it in good order."""
    try:
        return datetime.fromtimestamp((host_state / NAME).stat().st_mtime, UTC)
    except OSError:
        return None


def leave(descriptor: int) -> None:
    """Let go of the environment."""
    with suppress(OSError):
        os.utime(descriptor)
    os.close(descriptor)


def _locked(file: Path, kind: int) -> int | None:
    """Return a descriptor that holds a lock on the file of this name, or None."""
    try:
        descriptor = os.open(file, _FLAGS, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(file)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        # It is held, or its folder was removed just now: what was opened is nobody's any more.
        pass
    os.close(descriptor)
    return None


def _leave_note(descriptor: int, placement: Placement) -> None:
    note = Note(session=placement.session, profile=placement.profile, since=datetime.now(UTC))
    data = msgspec.json.encode(note)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
