"""Which files a search leaves out: the rules of ignore files, and folders that are never entered.

Pure: reading the files is the walker's affair. Rules follow ripgrep: in one file the last rule that
matches decides; ``.rgignore`` goes before ``.ignore``, which goes before ``.gitignore``, which goes
before ``.git/info/exclude``; a deeper folder goes before a higher one; rules for Git count only
inside a repository and end at its top.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from moorage.workspace.search.globs import GlobError, byte_text, compile_glob, has_wildcard

# Repositories' inner state (a worktree's .git is a file), our own folder, and what others wrote.
SKIPPED_NAMES = (".git", ".hg", ".svn", ".moorage")
SKIPPED_FOLDERS = ("node_modules", "vendor", "__pycache__", ".tox", ".venv")

# In the order of their rank; the Git ones come last and may be switched off together.
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
_GIT_RANK = IGNORE_FILES.index(".gitignore")

_EXTENSION = re.compile(r"\*(\.[^./*?\[\]{}\\,]+)\Z")


class Rule(NamedTuple):
    """One line of an ignore file; ``order`` is its place in the file."""

    order: int
    is_exception: bool
    is_folder_only: bool


class RuleSet:
    """The rules of one ignore file, asked about paths relative to the folder it governs."""

    __slots__ = ("_by_ending", "_by_name", "_by_pattern")

    def __init__(self, text: str) -> None:
        """Read the rules; a line that is no glob is left out, as Git and ripgrep do."""
        self._by_name: dict[str, list[Rule]] = {}
        self._by_ending: dict[str, list[Rule]] = {}
        self._by_pattern: list[tuple[re.Pattern[str], Rule]] = []
        for order, line in enumerate(text.removeprefix("\ufeff").split("\n")):
            self._add(line, order)

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return bool(self._by_name or self._by_ending or self._by_pattern)

    def decide(self, path: str, name: str, *, is_folder: bool) -> bool | None:
        """Return whether the rules leave ``path`` out, or None when they say nothing.

        ``name`` is the last part of ``path``.
        """
        last: Rule | None = None
        for rule in self._by_name.get(name, ()):
            last = _later(last, rule, is_folder=is_folder)
        dot = name.rfind(".")
        if dot >= 0:
            for rule in self._by_ending.get(name[dot:], ()):
                last = _later(last, rule, is_folder=is_folder)
        for pattern, rule in reversed(self._by_pattern):
            if last is not None and rule.order < last.order:
                break
            if (is_folder or not rule.is_folder_only) and pattern.match(byte_text(path)):
                last = rule
                break
        return None if last is None else not last.is_exception

    def _add(self, line: str, order: int) -> None:
        line = line.removesuffix("\r")
        if line.startswith("#"):
            return
        if not line.endswith("\\ "):
            line = line.rstrip()
        is_exception = line.startswith("!")
        line = line[is_exception:]
        if line.startswith(("\\!", "\\#")):
            line = line[1:]
        is_anchored = line.startswith("/")
        line = line[is_anchored:]
        is_folder_only = line.endswith("/")
        if is_folder_only:
            line = line[:-1].removesuffix("\\")
        if line:
            rule = Rule(order, is_exception, is_folder_only)
            self._file(line, rule, is_anywhere=not is_anchored and "/" not in line)

    def _file(self, glob: str, rule: Rule, *, is_anywhere: bool) -> None:
        """Put the rule where asking is cheapest: most rules are plain names or endings."""
        ending = _EXTENSION.match(glob)
        if is_anywhere and not has_wildcard(glob):
            self._by_name.setdefault(glob, []).append(rule)
        elif is_anywhere and ending is not None:
            self._by_ending.setdefault(ending[1], []).append(rule)
        else:
            glob = f"**/{glob}" if is_anywhere else glob
            glob = f"{glob}/*" if glob.endswith("/**") else glob
            try:
                self._by_pattern.append((compile_glob(glob), rule))
            except GlobError:
                return


class FolderRules(NamedTuple):
    """The ignore files of one folder.

    ``depth`` is how many characters of a path (as given to ``is_ignored``) lie above the folder;
    ``prefix`` is put before the path instead when the folder is above the searched one.
    """

    sets: tuple[RuleSet | None, ...]
    is_repository: bool
    depth: int = 0
    prefix: str = ""


def folder_rules(
    texts: Sequence[str | None], *, is_repository: bool, depth: int = 0, prefix: str = ""
) -> FolderRules | None:
    """Return the rules of a folder from its files' texts (see ``IGNORE_FILES``, then exclude)."""
    sets = tuple((RuleSet(text) or None) if text else None for text in texts)
    if not is_repository and not any(sets):
        return None
    return FolderRules(sets, is_repository, depth, prefix)


def is_ignored(chain: Sequence[FolderRules], path: str, name: str, *, is_folder: bool) -> bool:
    """Return whether ``path`` is left out; ``chain`` goes from the outermost folder inwards."""
    if not chain:
        return False
    in_repository = any(rules.is_repository for rules in chain)
    best: tuple[int, bool] | None = None
    has_left_repository = False
    for rules in reversed(chain):
        relative = rules.prefix + path if rules.prefix else path[rules.depth :]
        for rank, rule_set in enumerate(rules.sets):
            if rule_set is None or (best is not None and rank >= best[0]):
                continue
            if rank >= _GIT_RANK and (has_left_repository or not in_repository):
                continue
            verdict = rule_set.decide(relative, name, is_folder=is_folder)
            if verdict is not None:
                best = (rank, verdict)
        has_left_repository = has_left_repository or rules.is_repository
    return best is not None and best[1]


def is_skipped(name: str, *, is_folder: bool) -> bool:
    """Return whether a search never looks at an entry of this name."""
    return name in SKIPPED_NAMES or (is_folder and name in SKIPPED_FOLDERS)


def _later(last: Rule | None, rule: Rule, *, is_folder: bool) -> Rule | None:
    if rule.is_folder_only and not is_folder:
        return last
    return rule if last is None or rule.order > last.order else last
