"""Private files without a name: nobody else can open them, and nothing is left when we die."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from moorage.confine.private_folders import make_private


def open_nameless(folder: Path) -> int:
    """Return a descriptor of a new private file on the disk of ``folder``.

    Raises:
        OSError: the folder cannot be made or written to.
    """
    make_private(folder)
    flags = os.O_RDWR | os.O_CLOEXEC
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(folder, flags | os.O_TMPFILE | os.O_EXCL, 0o600)
        except OSError as error:
            # Some file systems (and all but Linux) have no such file: make one and drop its name.
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
    path = folder / os.urandom(16).hex()
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    os.unlink(path)
    return fd
