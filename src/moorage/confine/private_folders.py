"""Folders and files of Moorage's own that no other user may enter, whatever the umask says."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

PRIVATE = 0o700
_OTHERS = 0o077
_OTHERS_WRITE = 0o022


def make_private(folder: str | os.PathLike[str]) -> None:
    """Make a folder with mode 0700, and so each that is missing above it.

    One that is there and open to others is closed to them.

    Raises:
        OSError: it cannot be made, or is open to others and not ours to close.
    """
    path = os.fspath(folder)
    try:
        os.mkdir(path, PRIVATE)
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above in {"", path}:
            raise
        make_private(above)
        make_private(path)
    except FileExistsError:
        _close(path, _OTHERS)


def keep_from_writing(folder: str | os.PathLike[str]) -> None:
    """Let nobody else write in a folder that the user may have made and may want to show.

    A sticky one, such as ``/tmp``, is not Moorage's and is left.

    Raises:
        OSError: others may write in it, and it is not ours to change.
    """
    if os.path.isdir(folder) and not os.stat(folder).st_mode & stat.S_ISVTX:
        _close(os.fspath(folder), _OTHERS_WRITE)


def replace_private(file: str | os.PathLike[str], data: bytes, *, is_synced: bool = True) -> None:
    """Replace a file as a whole, mode 0600: whoever reads it sees the former one or the new one.

    ``is_synced`` has the new one survive the end of the machine, too.

    Raises:
        OSError: it cannot be written; the former one stands.
    """
    staged = f"{os.fspath(file)}.{os.urandom(4).hex()}"
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            if is_synced:
                os.fsync(handle.fileno())
        os.replace(staged, file)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(staged)


def _close(path: str, forbidden: int) -> None:
    """Take the forbidden bits off an existing folder; anything but a folder is not one of ours."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & forbidden:
            os.fchmod(descriptor, mode & ~forbidden)
    except OSError as error:
        problem = f"{path} is open to other users (mode {mode:04o}) and not yours to close"
        raise PermissionError(error.errno, problem) from error
    finally:
        os.close(descriptor)
