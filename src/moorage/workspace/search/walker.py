"""Walk a directory tree below an open folder, as ripgrep would: files only, ignore files obeyed.

Hidden files are included. Symlinks are neither followed nor reported, so the walk cannot leave the
folder, and no cycle exists for it. Folders are opened relative to their parent, so a folder that is
swapped for a symlink meanwhile is left out. It blocks, so it runs in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

import msgspec

from moorage.workspace.search.ignore import (
    IGNORE_FILES,
    FolderRules,
    folder_rules,
    is_ignored,
    is_skipped,
)

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK a FIFO that takes a file's name meanwhile would hold the thread for ever.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WalkLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a walk."""

    # Each level holds one descriptor open; the usual limit of a process is 1024.
    max_depth: int = 256
    # Larger ignore files exist in no sane repository.
    max_ignore_file_bytes: int = 1024 * 1024


class FoundFile(NamedTuple):
    """A regular file; ``folder_fd`` is open only until the walk goes on."""

    path: str
    name: str
    folder_fd: int


class _Level(NamedTuple):
    """One folder on the way down: what is left of it, its path (ending in /), its descriptor."""

    entries: Iterator[tuple[str, str, bool]]
    prefix: str
    fd: int
    chain: Sequence[FolderRules]


class Walker:
    """One walk; ``unreadable`` counts the folders that could not be opened or were too deep."""

    def __init__(
        self,
        *,
        limits: WalkLimits | None = None,
        excluded: frozenset[str] = frozenset(),
        check: Callable[[], object] = bool,
    ) -> None:
        """Keep the bounds, the relative paths to leave out, and what is asked at each folder.

        ``check`` may raise to end the walk, for example because the caller was cancelled.
        """
        self._limits = limits or WalkLimits()
        self._excluded = excluded
        self._check = check
        self.unreadable = 0

    def files(self, folder_fd: int, *, above: str = "") -> Iterator[FoundFile]:
        """Yield the files below ``folder_fd`` (kept open), in the order of their paths.

        ``above`` is the folder's absolute path: the ignore files of the folders over it count.
        """
        # A new description: two walks over one folder must not share a reading position.
        top = os.open(".", _FOLDER_FLAGS, dir_fd=folder_fd)
        levels = [self._enter(top, "", self._rules_above(above))]
        try:
            while levels:
                level = levels[-1]
                entry = next(level.entries, None)
                if entry is None:
                    os.close(levels.pop().fd)
                    continue
                _, name, is_folder = entry
                if not is_folder:
                    yield FoundFile(level.prefix + name, name, level.fd)
                elif (below := self._descend(level, name, len(levels))) is not None:
                    levels.append(below)
        finally:
            for level in levels:
                os.close(level.fd)

    def _descend(self, level: _Level, name: str, depth: int) -> _Level | None:
        if depth >= self._limits.max_depth:
            self.unreadable += 1
            return None
        try:
            fd = os.open(name, _FOLDER_FLAGS, dir_fd=level.fd)
        except OSError:
            self.unreadable += 1
            return None
        return self._enter(fd, f"{level.prefix}{name}/", level.chain)

    def _enter(self, fd: int, prefix: str, chain: Sequence[FolderRules]) -> _Level:
        """Read a folder; on any error the descriptor is closed."""
        try:
            self._check()
            entries, bearers = _list(fd)
            if bearers:
                own = _read_rules(fd, bearers, self._limits, depth=len(prefix))
                chain = [*chain, own] if own is not None else chain
            return _Level(iter(self._wanted(entries, prefix, chain)), prefix, fd, chain)
        except OSError:
            self.unreadable += 1
            return _Level(iter(()), prefix, fd, chain)
        except BaseException:
            os.close(fd)
            raise

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
    private = pointer.removeprefix("gitdir: ").strip()
    common = _read_text(fd, f"{private}/commondir", 4096)
    if common is None:
        return None
    return _read_text(fd, f"{os.path.join(private, common.strip())}/info/exclude", max_bytes)


def _read_text(fd: int, name: str, max_bytes: int) -> str | None:
    """Return the text of a regular file, or None; a link to one is read, as Git does."""
    try:
        file_fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return None
    try:
        return os.read(file_fd, max_bytes).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(file_fd)
