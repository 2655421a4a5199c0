"""Remove what programs left behind, however deep it lies.

A folder inside a folder is moved up to the top before it is emptied, so neither the stack nor the
number of open descriptors grows with the depth, and no symlink is ever followed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IS_FULL = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a folder and everything in it.

    Raises:
        OSError: something cannot be removed; the rest of it stays.
    """
    top = os.open(path, _FOLDER_FLAGS)
    try:
        taken = {entry for entry, _ in _entries(top)}
        names = (f"left-{number}" for number in count() if f"left-{number}" not in taken)
        waiting = _empty(top, top, names)
        while waiting:
            name = waiting.pop()
            folder = os.open(name, _FOLDER_FLAGS, dir_fd=top)
            try:
                waiting += _empty(folder, top, names)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(path)


def _empty(folder: int, top: int, names: Iterator[str]) -> list[str]:
    """Remove what is in a folder; return the names in ``top`` of the folders that are not empty."""
    waiting: list[str] = []
    for name, is_folder in _entries(folder):
        with suppress(FileNotFoundError):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif not _is_removed(name, folder):
                if folder != top:
                    moved = next(names)
                    os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=top)
                    name = moved  # noqa: PLW2901 - that is its name from now on
                waiting.append(name)
    return waiting


def _is_removed(name: str, folder: int) -> bool:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in _IS_FULL:
            raise
        return False
    return True


def _entries(folder: int) -> list[tuple[str, bool]]:
    """Return names with whether each is a folder."""
    with os.scandir(folder) as listing:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
