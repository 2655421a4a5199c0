"""Walk a directory tree below an open folder, as ripgrep would: files only, ignore files obeyed.

Hidden files are included. Symlinks are neither followed nor reported, so the walk cannot leave the
folder, and no cycle exists for it. Folders are opened from the top in one step without links: one
that is swapped for a symlink meanwhile is left out, and no depth needs many open descriptors.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

import msgspec

from moorage.workspace.opening.beneath import open_beneath
from moorage.workspace.search.ignore import (
    IGNORE_FILES,
    FolderRules,
    folder_rules,
    is_ignored,
    is_skipped,
)

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a FIFO that takes a file's name meanwhile would hold the search for ever.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WalkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a walk."""

    # Larger ignore files exist in no sane repository.
    max_ignore_file_bytes: int = 1024 * 1024


class _Level(NamedTuple):
    """One folder on the way down: what is left of it, its path (ending in /), its rules."""

    entries: Iterator[tuple[str, str, bool]]
    prefix: str
    chain: Sequence[FolderRules]


class Walker:
    """One walk; ``unreadable`` counts the folders that could not be opened or listed."""

    def __init__(
        self,
        *,
        limits: WalkLimits | None = None,
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        """Keep the bounds and the relative paths to leave out."""
        self._limits = limits or WalkLimits()
        self._excluded = excluded
        self.unreadable = 0

    def files(self, folder_fd: int, *, above: str = "") -> Iterator[str]:
        """Yield the paths of the files below ``folder_fd`` (kept open), in their order.

        ``above`` is the folder's absolute path: the ignore files of the folders over it count.
        """
        levels = [self._enter(folder_fd, "", self._rules_above(above))]
        while levels:
            level = levels[-1]
            entry = next(level.entries, None)
            if entry is None:
                levels.pop()
                continue
            _, name, is_folder = entry
            if is_folder:
                levels.append(self._enter(folder_fd, f"{level.prefix}{name}/", level.chain))
            else:
                yield level.prefix + name

    def _enter(self, top: int, prefix: str, chain: Sequence[FolderRules]) -> _Level:
        """Read a folder; one that cannot be read is counted, and empty."""
        try:
            # A new description each time: two walks must not share a reading position.
            fd = open_beneath(top, prefix.rstrip("/") or ".", _FOLDER_FLAGS)
        except OSError:
            self.unreadable += 1
            return _Level(iter(()), prefix, chain)
        try:
            entries, bearers = _list(fd)
            if bearers:
                own = _read_rules(fd, bearers, self._limits, depth=len(prefix))
                chain = [*chain, own] if own is not None else chain
            return _Level(iter(self._wanted(entries, prefix, chain)), prefix, chain)
        except OSError:
            self.unreadable += 1
            return _Level(iter(()), prefix, chain)
        finally:
            os.close(fd)

    def _wanted(
        self, entries: list[tuple[str, bool]], prefix: str, chain: Sequence[FolderRules]
    ) -> list[tuple[str, str, bool]]:
        """Return the entries to visit; a folder sorts as its path with a slash, as its files do."""
        wanted = [
            (f"{name}/" if is_folder else name, name, is_folder)
            for name, is_folder in entries
            if not is_skipped(name, is_folder=is_folder)
            and not (chain and is_ignored(chain, prefix + name, name, is_folder=is_folder))
            and not (self._excluded and prefix + name in self._excluded)
        ]
        wanted.sort()
        return wanted

    def _rules_above(self, absolute: str) -> list[FolderRules]:
        """Return the rules of the folders over ``absolute``, outermost first."""
        found: list[FolderRules] = []
        prefix = ""
        while absolute not in ("", "/"):
            absolute, _, name = absolute.rpartition("/")
            prefix = f"{name}/{prefix}"
            rules = _rules_at(absolute or "/", prefix, self._limits)
            if rules is not None:
                found.append(rules)
        found.reverse()
        return found


_RULE_BEARERS = frozenset({*IGNORE_FILES, ".git"})


def _rules_at(folder: str, prefix: str, limits: WalkLimits) -> FolderRules | None:
    """Return the rules of one folder over the searched one."""
    try:
        fd = os.open(folder, _FOLDER_FLAGS)
    except OSError:
        return None
    try:
        return _read_rules(fd, _RULE_BEARERS, limits, prefix=prefix)
    finally:
        os.close(fd)


def _list(fd: int) -> tuple[list[tuple[str, bool]], set[str]]:
    """Return files and folders with whether each is a folder, and the names that bring rules."""
    entries: list[tuple[str, bool]] = []
    bearers: set[str] = set()
    with os.scandir(fd) as listing:
        for entry in listing:
            if entry.name in _RULE_BEARERS:
                bearers.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                entries.append((entry.name, True))
            elif entry.is_file(follow_symlinks=False):
                entries.append((entry.name, False))
    return entries, bearers


def _read_rules(
    fd: int, names: Set[str], limits: WalkLimits, *, depth: int = 0, prefix: str = ""
) -> FolderRules | None:
    texts = [
        _read_text(fd, name, limits.max_ignore_file_bytes) if name in names else None
        for name in IGNORE_FILES
    ]
    is_repository = ".git" in names and _exists(fd, ".git")
    if is_repository:
        texts.append(_read_exclude(fd, limits.max_ignore_file_bytes))
    return folder_rules(texts, is_repository=is_repository, depth=depth, prefix=prefix)


def _exists(fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=fd)
    except OSError:
        return False
    return True


def _read_exclude(fd: int, max_bytes: int) -> str | None:
    """Return ``info/exclude`` of the repository whose top ``fd`` is, of a worktree too."""
    text = _read_text(fd, ".git/info/exclude", max_bytes)
    pointer = None if text is not None else _read_text(fd, ".git", 4096)
    if pointer is None or not pointer.startswith("gitdir: "):
        return text
    # What a worktree points to lies elsewhere; the confinement says what of it can be read.
    private = pointer.removeprefix("gitdir: ").strip()
    common = _read_elsewhere(fd, f"{private}/commondir", 4096)
    if common is None:
        return None
    return _read_elsewhere(fd, f"{os.path.join(private, common.strip())}/info/exclude", max_bytes)


def _read_text(fd: int, name: str, max_bytes: int) -> str | None:
    """Return the text of a regular file below the folder, or None.

    A link is not followed: Git follows none to an ignore file either, and one might lead to a file
    that nobody may read, whose lines would then show in what is left out.
    """
    try:
        return _read(open_beneath(fd, name, FILE_FLAGS), max_bytes)
    except OSError:
        return None


def _read_elsewhere(fd: int, path: str, max_bytes: int) -> str | None:
    try:
        return _read(os.open(path, FILE_FLAGS, dir_fd=fd), max_bytes)
    except (OSError, ValueError):
        return None


def _read(file_fd: int, max_bytes: int) -> str | None:
    try:
        if not stat.S_ISREG(os.fstat(file_fd).st_mode):
            return None
        return os.read(file_fd, max_bytes).decode("utf-8", "surrogateescape")
    finally:
        os.close(file_fd)
