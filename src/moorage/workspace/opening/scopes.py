"""Permitted folders held by descriptor, and what may be opened below them."""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from moorage.workspace.opening.beneath import FOLDER_FLAGS, PROBE_FLAGS, open_beneath
from moorage.workspace.opening.location import (
    FolderMissing,
    Location,
    Target,
    WrongFileType,
    check_regular,
    protected,
)


class Scope(msgspec.Struct):
    """One permitted folder: its real path, its descriptor and which folder that is."""

    path: str
    fd: int
    identity: tuple[int, int]
    is_writable: bool = True


class Place(msgspec.Struct, frozen=True):
    """A location together with the permitted folder that it lies in."""

    scope: Scope
    relative: str
    location: Location


def hold(path: str, *, is_writable: bool) -> Scope:
    """Open a folder by its real path; a symlink on the way is refused."""
    anchor = os.open("/", FOLDER_FLAGS)
    try:
        fd = open_beneath(anchor, path.lstrip("/") or ".", FOLDER_FLAGS)
    finally:
        os.close(anchor)
    status = os.fstat(fd)
    return Scope(path, fd, (status.st_dev, status.st_ino), is_writable)


def refresh(scope: Scope) -> None:
    """Follow the name of a permitted folder that was deleted and made anew.

    Raises:
        FolderMissing: no other takes its place.
    """
    try:
        status = os.stat(scope.path, follow_symlinks=False)
        if (status.st_dev, status.st_ino) == scope.identity:
            return
        renewed = hold(scope.path, is_writable=scope.is_writable)
    except OSError as error:
        raise FolderMissing(scope.path) from error
    # The number stays the same and is never free, so that a thread that uses it meanwhile
    # has either the old folder or the new one.
    os.dup2(renewed.fd, scope.fd, inheritable=False)
    os.close(renewed.fd)
    scope.identity = renewed.identity


def open_regular(place: Place) -> int:
    """Open a regular file for reading, after a look at its type that disturbs nobody.

    Raises:
        WrongFileType: it is something else.
        OSError: it is missing, a symlink, was replaced meanwhile, or the system refuses.
    """
    display = place.location.display
    probe = open_beneath(place.scope.fd, place.relative, PROBE_FLAGS)
    try:
        before = os.fstat(probe)
    finally:
        os.close(probe)
    check_regular(before.st_mode, display)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
    fd = open_beneath(place.scope.fd, place.relative, flags)
    after = os.fstat(fd)
    if (after.st_dev, after.st_ino) != (before.st_dev, before.st_ino):
        os.close(fd)
        raise OSError(errno.ESTALE, "replaced while it was opened", display)
    return fd


def open_target(place: Place) -> Target:
    """Hold the folder in which a file is to be written.

    Raises:
        Refused: the file is protected.
        WrongFileType: the place is the permitted folder itself.
        OSError: a symlink stands on the way, or the system refuses.
    """
    location = place.location
    if location.is_protected:
        raise protected(location.display, "written")
    if place.relative == ".":
        raise WrongFileType(location.display, "folder")
    *folders, name = place.relative.split("/")
    fd, missing = _open_deepest(place.scope, folders)
    try:
        status = None if missing else _status(fd, name)
    except BaseException:
        os.close(fd)
        raise
    return Target(location=location, folder_fd=fd, missing=missing, name=name, status=status)


def _open_deepest(scope: Scope, folders: list[str]) -> tuple[int, tuple[str, ...]]:
    """Open the deepest of ``folders`` that exists, and name those below it."""
    for depth in range(len(folders), 0, -1):
        try:
            fd = open_beneath(scope.fd, "/".join(folders[:depth]), FOLDER_FLAGS)
        except FileNotFoundError:
            continue
        return fd, tuple(folders[depth:])
    return open_beneath(scope.fd, ".", FOLDER_FLAGS), tuple(folders)


def _status(folder_fd: int, name: str) -> os.stat_result | None:
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return status
