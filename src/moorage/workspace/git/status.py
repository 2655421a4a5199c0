"""``git status --porcelain=v2 -z`` as staged, unstaged and untracked files. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

Change = Literal["added", "modified", "deleted", "renamed", "copied", "type changed", "unmerged"]

_CHANGES: dict[str, Change] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
    "U": "unmerged",
}


class ChangedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file that differs; ``old_path`` when it was renamed or copied."""

    path: str
    change: Change
    old_path: str = ""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a working tree looks like; ``head`` is empty before the first commit."""

    branch: str = ""
    head: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    staged: tuple[ChangedFile, ...] = ()
    unstaged: tuple[ChangedFile, ...] = ()
    unmerged: tuple[ChangedFile, ...] = ()
    untracked: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether nothing differs."""
        return not (self.staged or self.unstaged or self.unmerged or self.untracked)


def parse_status(output: bytes) -> Status:
    """Return the status that the output of ``--porcelain=v2 --branch -z`` describes."""
    headers: dict[str, str] = {}
    staged: list[ChangedFile] = []
    unstaged: list[ChangedFile] = []
    unmerged: list[ChangedFile] = []
    untracked: list[str] = []
    fields = iter(output.decode("utf-8", "replace").split("\0"))
    for field in fields:
        kind, _, rest = field.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind in ("1", "2"):
            _take_change(kind, rest, fields, (staged, unstaged))
        elif kind == "u":
            unmerged.append(ChangedFile(rest.split(" ", 9)[-1], "unmerged"))
        elif kind == "?":
            untracked.append(rest)
    ahead, behind = _distances(headers.get("branch.ab", ""))
    head = headers.get("branch.oid", "")
    return Status(
        branch=headers.get("branch.head", ""),
        head="" if head == "(initial)" else head,
        upstream=headers.get("branch.upstream", ""),
        ahead=ahead,
        behind=behind,
        staged=tuple(staged),
        unstaged=tuple(unstaged),
        unmerged=tuple(unmerged),
        untracked=tuple(untracked),
    )


def _take_change(
    kind: str,
    rest: str,
    fields: Iterator[str],
    sides: tuple[list[ChangedFile], list[ChangedFile]],
) -> None:
    """Put a changed file on the side of the index, of the working tree, or on both."""
    is_move = kind == "2"
    path = rest.split(" ", 8 if is_move else 7)[-1]
    old_path = next(fields, "") if is_move else ""
    for letter, files in zip(rest[:2], sides, strict=True):
        change = _CHANGES.get(letter)
        if change is not None:
            is_moved = change in ("renamed", "copied")
            files.append(ChangedFile(path, change, old_path if is_moved else ""))


def _distances(text: str) -> tuple[int, int]:
    """Return how many commits a branch is ahead of and behind its upstream."""
    parts = text.split()
    if len(parts) != 2:
        return 0, 0
    return int(parts[0].lstrip("+")), int(parts[1].lstrip("-"))
