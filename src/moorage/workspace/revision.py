"""Name the state of a workspace in a few characters, so that results can be told apart by it.

A label, bounded in time and work; nothing may depend on it for safety. Empty when it cannot be had.
"""

from __future__ import annotations

import os
import stat
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import anyio
import msgspec

from moorage.errors import ExecutionError
from moorage.process.reading import read_program
from moorage.process.spec import ProgramSpec
from moorage.workspace.opening.beneath import open_beneath

if TYPE_CHECKING:
    from moorage.confine.plan import Plan
    from moorage.process.supervisor import Supervisor

_STATUS = (
    "git",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
)
_HEAD = b"# branch.oid "
_CHANGED_ENTRY_WORDS = {b"1": 9, b"2": 10, b"u": 11, b"?": 2}
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RevisionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much work a label is worth."""

    git_seconds: float = 2.0
    status_bytes: int = 1024 * 1024
    changed_files: int = 500
    files: int = 5000
    total_bytes: int = 32 * 1024 * 1024
    file_bytes: int = 1024 * 1024
    walk_seconds: float = 0.5


class _TooMuch(Exception):
    """The workspace is larger than a label is worth."""


async def workspace_revision(
    supervisor: Supervisor, plan: Plan, root: str, *, limits: RevisionLimits | None = None
) -> str:
    """Return the revision of the workspace at ``root``; empty when it is too large or unreadable.

    In a Git repository it is the commit and a hash of the changes; elsewhere a hash of the files.
    """
    limits = limits or RevisionLimits()
    status = await _git_status(supervisor, plan, root, limits)
    if status is None:
        return await anyio.to_thread.run_sync(_hash_files, root, limits)
    if not status:
        return ""
    return await anyio.to_thread.run_sync(_label, status, root, limits)


async def _git_status(
    supervisor: Supervisor, plan: Plan, root: str, limits: RevisionLimits
) -> bytes | None:
    """Return what git says; ``None`` without a repository or git, empty when it takes too long."""
    printed = bytearray()

    async def take(chunk: bytes) -> bool:
        printed.extend(chunk)
        return len(printed) > limits.status_bytes

    spec = ProgramSpec(argv=_STATUS, plan=plan, cwd=root)
    try:
        with anyio.move_on_after(limits.git_seconds):
            end = await read_program(supervisor, spec, take)
            if end.is_stopped:
                return b""
            return bytes(printed) if end.status.exit_code == 0 else None
    except ExecutionError:
        return None
    return b""


def _label(status: bytes, root: str, limits: RevisionLimits) -> str:
    """Return the label of a status: changed files count with their size and time too."""
    digest = sha256()
    head, changed = b"", 0
    for entry in status.split(b"\0"):
        if entry.startswith(_HEAD):
            head = entry[len(_HEAD) :]
        if entry.startswith(b"#"):
            continue
        digest.update(entry + b"\0")
        words = entry.split(b" ", _CHANGED_ENTRY_WORDS.get(entry[:1], 1) - 1)
        if len(words) > 1 and changed < limits.changed_files:
            changed += 1
            digest.update(_stamp(root, words[-1]))
    commit = head[:12].decode("ascii", "replace") if not head.startswith(b"(") else "0" * 12
    return f"git:{commit}:worktree:{digest.hexdigest()[:16]}"


def _stamp(root: str, path: bytes) -> bytes:
    try:
        status = os.lstat(os.path.join(os.fsencode(root), path))
    except OSError:
        return b"-"
    return b"%d %d" % (status.st_size, status.st_mtime_ns)


def _hash_files(root: str, limits: RevisionLimits) -> str:
    digest = _TreeDigest(limits)
    try:
        fd = os.open(root, _FOLDER_FLAGS)
        try:
            digest.add_tree(fd)
        finally:
            os.close(fd)
    except (OSError, _TooMuch):
        return ""
    return f"fs:worktree:{digest.hash.hexdigest()[:16]}"


class _TreeDigest:
    """A hash over names and contents below one folder; symlinks count by their target's name."""

    def __init__(self, limits: RevisionLimits) -> None:
        self.hash = sha256()
        self._limits = limits
        self._files = 0
        self._bytes = 0
        self._deadline = time.monotonic() + limits.walk_seconds

    def add_tree(self, top: int) -> None:
        """Add all that lies below an open folder, however deep."""
        waiting = [""]
        while waiting:
            path = waiting.pop()
            fd = open_beneath(top, path or ".", _FOLDER_FLAGS)
            try:
                waiting += self._add_folder(fd, path)
            finally:
                os.close(fd)

    def _add_folder(self, fd: int, path: str) -> list[str]:
        """Add the entries of one folder; return the paths of the folders in it."""
        folders: list[str] = []
        for name in sorted(os.listdir(fd)):
            self._count()
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            below = f"{path}/{name}" if path else name
            self.hash.update(os.fsencode(f"{below}\0{status.st_mode:o}\0"))
            if stat.S_ISDIR(status.st_mode):
                folders.append(below)
            elif stat.S_ISREG(status.st_mode):
                self._add_file(fd, name, status.st_size)
            elif stat.S_ISLNK(status.st_mode):
                self.hash.update(os.fsencode(os.readlink(name, dir_fd=fd)))
        return folders

    def _add_file(self, folder: int, name: str, size: int) -> None:
        self._bytes += size
        if size > self._limits.file_bytes or self._bytes > self._limits.total_bytes:
            raise _TooMuch
        fd = os.open(name, _FILE_FLAGS, dir_fd=folder)
        try:
            self.hash.update(os.read(fd, size + 1))
        finally:
            os.close(fd)

    def _count(self) -> None:
        self._files += 1
        if self._files > self._limits.files or time.monotonic() > self._deadline:
            raise _TooMuch
