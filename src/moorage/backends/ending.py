"""Ends a local worker that stays, whether or not it answers."""

from __future__ import annotations

from pathlib import Path

from moorage.backends.stay import StayingLimits
from moorage.transports import standing_lock
from moorage.transports.standing_end import end_holder


def running_pid(folder: Path) -> int | None:
    """Return the process of the worker that stays in this folder, or None."""
    return standing_lock.holder(folder)


def end_worker(folder: Path, limits: StayingLimits | None = None) -> bool:
    """End the worker that stays in this folder, in order; return whether there was one.

    It needs no connection, so that also a worker of another version, or one that hangs, ends.

    Raises:
        ShutdownIncomplete: force was needed, or did not help; what it held may remain.
    """
    bounds = limits or StayingLimits()
    return end_holder(folder, end_seconds=bounds.end_seconds, kill_seconds=bounds.kill_seconds)
