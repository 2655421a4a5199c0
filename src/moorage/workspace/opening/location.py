"""What a path turned out to be: where it really is, and what stands there."""

from __future__ import annotations

import errno
import os
import stat

import msgspec

from moorage.errors import Refused

_KINDS = {
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


class Location(msgspec.Struct, frozen=True):
    """One path, resolved.

    ``display`` is relative to the workspace, or absolute when it lies in another folder.
    """

    display: str
    absolute: str
    is_protected: bool = False


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is to be written: a held folder above it, and the names that lead down to it.

    ``missing`` names folders that do not exist yet; ``status`` is that of the existing file, if
    there is one. Leaving its ``with`` lets go of the folder.
    """

    location: Location
    folder_fd: int
    missing: tuple[str, ...]
    name: str
    status: os.stat_result | None

    def __enter__(self) -> Target:
        """Return itself."""
        return self

    def __exit__(self, *details: object) -> None:
        """Let go of the folder."""
        os.close(self.folder_fd)


class WrongFileType(Exception):
    """What stands at a path is not what the call works on; ``found`` names it."""

    def __init__(self, display: str, found: str) -> None:
        """Keep how the path is shown and what was found there."""
        super().__init__(f"{display} is a {found}.")
        self.display = display
        self.found = found


class FolderMissing(FileNotFoundError):
    """A permitted folder itself is missing; nothing was looked for elsewhere."""

    def __init__(self, folder: str) -> None:
        """Keep which folder it is."""
        super().__init__(errno.ENOENT, "the workspace folder itself is missing", folder)
        self.folder = folder


def check_regular(mode: int, display: str) -> None:
    """Return when ``mode`` is that of a regular file.

    Raises:
        WrongFileType: it is not.
    """
    if not stat.S_ISREG(mode):
        raise WrongFileType(display, _KINDS.get(stat.S_IFMT(mode), "special file"))


def outside(path: str) -> Refused:
    """Return the refusal of a path that no permitted folder contains."""
    return Refused(
        f"{path} lies outside the workspace.",
        reason="boundary_denied",
        hint="Do not look for another way: the user can add its folder to the session "
        "(--writable DIR) or change the session's mode.",
    )


def hidden(path: str) -> Refused:
    """Return the refusal of a path inside Moorage's own folders."""
    return Refused(
        f"{path} belongs to Moorage itself, and no tool reads or writes it in any mode.",
        reason="boundary_denied",
        hint="The user can look after it with the moorage command.",
    )


def protected(display: str, verb: str) -> Refused:
    """Return the refusal to have a protected file ``read`` or ``written``."""
    return Refused(
        f"{display} is a protected file (credentials or repository state) and is not {verb} by "
        "the file tools.",
        reason="protected_path",
        hint="Ask the user to change it."
        if verb == "written"
        else "The user can change the session's mode.",
    )


def read_only(path: str) -> Refused:
    """Return the refusal to write in the mode that only reads."""
    return Refused(
        f"{path} would be changed, and the permission mode is read_only.",
        reason="boundary_denied",
        hint="The user can change the session's mode.",
    )
