"""A lock file that one program holds at a time, for a bounded while."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from moorage.errors import BackendUnavailable

RETRY_SECONDS = 0.02


@asynccontextmanager
async def alone(
    file: Path, seconds: float, busy: str, *, retry_seconds: float = RETRY_SECONDS
) -> AsyncIterator[None]:
    """Hold the lock of ``file``, which is made when it is not there.

    Raises:
        BackendUnavailable: another program held it for ``seconds``; ``busy`` says what it does.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(file, flags, 0o600)
    try:
        is_locked = False
        with anyio.move_on_after(seconds):
            while not is_locked:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    is_locked = True
                except BlockingIOError:
                    await anyio.sleep(retry_seconds)
        if not is_locked:
            raise BackendUnavailable(
                f"another program {busy} for {seconds:g} s.", hint="Try again when it has ended."
            )
        yield
    finally:
        os.close(descriptor)
