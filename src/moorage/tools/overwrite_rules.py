"""When an existing file may be replaced as a whole; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.workspace.edit import PLACEHOLDER

if TYPE_CHECKING:
    from moorage.protocol.workspace_tools import OverwritePolicy
    from moorage.workspace.redact import Redactor

_GENERATED_FOLDERS = frozenset({"generated", "gen", "dist", "build", "out", "coverage"})
_GENERATED_MARKS = (".generated.", ".gen.")
_GENERATED_ENDINGS = (".pb.go", ".min.js")


def is_generated(path: str) -> bool:
    """Return whether a path names something that a program makes."""
    *folders, name = path.split("/")
    return (
        not _GENERATED_FOLDERS.isdisjoint((*folders, name))
        or any(mark in name for mark in _GENERATED_MARKS)
        or name.endswith(_GENERATED_ENDINGS)
    )


def may_replace_long_file(policy: OverwritePolicy | None, path: str) -> bool:
    """Return whether ``policy`` covers the replacement of a file that is not small."""
    return policy == "explicit_user_requested" or (policy == "generated" and is_generated(path))


def brings_back_mask(old: bytes, new: bytes, redactor: Redactor) -> bool:
    """Return whether ``new`` holds the mark that output shows in place of a secret of ``old``.

    Text that speaks of the mark is fine; only where the old text has a secret to lose it is not.
    """
    mark = PLACEHOLDER.encode()
    if new.count(mark) <= old.count(mark):
        return False
    return redactor.data(old).count(mark) > old.count(mark)
