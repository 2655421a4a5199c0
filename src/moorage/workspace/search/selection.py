"""What a search is about: where, what for, and which files of a tree."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from moorage.workspace.search.globs import compile_glob, has_wildcard

Accepts = Callable[[bytes], bool]


class PatternError(ValueError):
    """The text is no regular expression that can be searched for; the message says why."""


class SearchFailed(Exception):
    """The program that searches did not do its work; the message says why."""


class Include(msgspec.Struct, frozen=True):
    """What ``include`` asks for.

    ``accepts`` decides about a path. When ``is_told`` an engine that was given ``name_glob``, which
    base names must match, has decided all there is.
    """

    name_glob: str = ""
    accepts: Accepts | None = None
    is_told: bool = False


class SearchPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where to search: an open folder, or an open file.

    ``absolute`` is its path; ignore files above it count. ``excluded`` are paths below it that are
    never looked into.
    """

    fd: int
    absolute: str
    is_file: bool = False
    excluded: tuple[str, ...] = ()

    @property
    def name(self) -> bytes:
        """Return the base name."""
        return os.fsencode(os.path.basename(self.absolute))


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for; ``counts_files`` asks for files with counts instead of lines."""

    pattern: str
    include: Include = Include()
    ignore_case: bool = False
    counts_files: bool = False
    before: int = 0
    after: int = 0


def read_include(text: str | None) -> Include:
    """Return what ``include`` asks for.

    Without a slash it is a glob of base names, else one of paths below the searched folder; a
    leading ``!`` turns it around.

    Raises:
        GlobError: the text is no glob.
    """
    if not text:
        return Include()
    if text.startswith("!"):
        matches = _matcher(text[1:])
        return Include(accepts=lambda path: not matches(path))
    matches = _matcher(text)
    if "/" not in text:
        is_told = _is_safe_name(text)
        return Include(text if is_told else "", matches, is_told)
    name = _relative(text).rpartition("/")[2]
    is_name = name != "**" and name.count("{") == name.count("}") and _is_safe_name(name)
    return Include(name if is_name else "", matches)


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the plain folders that a glob begins with, and the rest, which has the wildcards.

    Looking starts in those folders, so that a folder named outright is looked into even if ignore
    files leave it out.
    """
    parts = _relative(pattern).split("/")
    plain = 0
    while plain < len(parts) - 1 and parts[plain] and not has_wildcard(parts[plain]):
        plain += 1
    return "/".join(parts[:plain]), "/".join(parts[plain:])


def path_matcher(pattern: str) -> Accepts:
    """Return whether a path below the folder matches the whole glob.

    Raises:
        GlobError: the text is no glob.
    """
    match = compile_glob(pattern).match
    return lambda path: match(path.decode("latin-1")) is not None


def _matcher(glob: str) -> Accepts:
    if "/" in glob:
        return path_matcher(_relative(glob))
    match = compile_glob(glob).match
    return lambda path: match(path[path.rfind(b"/") + 1 :].decode("latin-1")) is not None


def _relative(glob: str) -> str:
    """Return the glob without what only says that it begins here; a folder means what is in it."""
    while glob.startswith(("./", "/")):
        glob = glob.removeprefix("./").removeprefix("/")
    return f"{glob}**" if glob.endswith("/") else glob


def _is_safe_name(glob: str) -> bool:
    """Return whether ripgrep reads the glob as one; a colon has a meaning of its own there."""
    return bool(glob) and ":" not in glob
