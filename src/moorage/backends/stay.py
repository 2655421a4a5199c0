"""What a local worker that outlives its host is started with, and the bounds of its life."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from moorage.policy.permission import PermissionMode

SOCKET = "socket"
LOG = "log"


class StayingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of starting, reaching and ending a worker that stays."""

    idle_seconds: float = 600.0
    """Without a host and without a running process; then the worker ends by itself."""

    start_seconds: float = 20.0
    """For a worker to listen; it may have to wait for the one before it to end."""

    start_lock_seconds: float = 30.0
    """For another host that is just starting the same worker."""

    retry_seconds: float = 0.02
    """Between two looks at a lock, or at a socket that has no room just now."""

    connect_seconds: float = 5.0
    """For room in the queue of the socket."""

    end_seconds: float = 12.0
    """For an orderly end before force is used."""

    kill_seconds: float = 2.0
    """After force: for the kernel to take the worker away."""

    max_log_bytes: int = 1024 * 1024
    """A longer log of earlier workers is put aside, and the one before it dropped."""

    log_tail_bytes: int = 2048


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker that stays was started with; no host may use it with anything else."""

    version: str
    mode: PermissionMode
    writable_roots: tuple[str, ...]
    hidden_paths: tuple[str, ...]
    state: str
    confinement: str = ""


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """One worker that stays: its private folder, and what it is, or would be, started with."""

    folder: Path
    session: str
    grants: Grants
    argv: tuple[str, ...]
    variables: Mapping[str, str]
    grace_seconds: float

    def see_log(self) -> str:
        """Return the sentence that says where the worker's own words are."""
        return f"Its log is {self.folder / LOG}."
