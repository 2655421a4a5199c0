"""The lock that a worker holds from its first act to its last, and who holds it.

It is a record lock: no child inherits it, it goes with its process however that ends, and the
kernel tells whose it is.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

NAME = "alive"
# struct flock of 64-bit Linux: type, whence, start, length, pid.
_RECORD = struct.Struct("hhqqi4x")


def take(folder: Path) -> int | None:
    """Return the descriptor that holds the lock as long as it is open, or None: another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder / NAME, flags, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def holder(folder: Path) -> int | None:
    """Return the process that holds the lock, or None.

    It is 0 when it cannot be seen from here, because it runs in another container.
    """
    try:
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        asked = _RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _RECORD.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else pid
