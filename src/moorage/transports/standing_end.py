"""Ends who holds a standing lock, whether or not it answers."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

from moorage.errors import ShutdownIncomplete
from moorage.transports import standing_lock


def end_holder(folder: Path, *, end_seconds: float, kill_seconds: float) -> bool:
    """End the worker that stays in this folder, in order; return whether there was one.

    It needs no connection, so that also a worker of another version, or one that hangs, ends.

    Raises:
        ShutdownIncomplete: force was needed, or did not help; what it held may remain.
    """
    pid = standing_lock.holder(folder)
    if pid is None:
        return False
    if pid == 0:
        raise ShutdownIncomplete(
            "the session's worker runs in another container and cannot be ended from here.",
            hint="End it there.",
        )
    try:
        worker = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The number may have passed to a stranger meanwhile; the lock tells.
        if standing_lock.holder(folder) == pid:
            _end(worker, end_seconds, kill_seconds)
    finally:
        os.close(worker)
    return True


def _end(worker: int, end_seconds: float, kill_seconds: float) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, signal.SIGTERM)
    if _has_ended(worker, end_seconds):
        return
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(worker, signal.SIGKILL)
    _has_ended(worker, kill_seconds)
    raise ShutdownIncomplete(
        f"the session's worker did not end within {end_seconds:g} s and was killed.",
        hint="What it looked after may remain; it was left for inspection.",
    )


def _has_ended(worker: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(worker, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
