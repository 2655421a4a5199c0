"""What can go wrong with a file, as one sentence that says what is wrong and what to do."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from moorage.tools.results import failure
from moorage.workspace.files import ChangedMeanwhile
from moorage.workspace.opening.location import FolderMissing, WrongFileType
from moorage.workspace.staged import AlreadyThere

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult

MISFORTUNES = (OSError, WrongFileType, ChangedMeanwhile, AlreadyThere)

_FULL = ("disk_full", "The disk is full; {path} was left as it was. Free some space and try again.")
_NO_LEAVE = (
    "permission_denied",
    "The system does not permit this access to {path}; its permissions or its owner forbid it.",
)
_SENTENCES = {
    errno.ENOENT: ("not_found", "{path} does not exist."),
    errno.ENOTDIR: ("not_a_folder", "A part of {path} is a file where a folder is needed."),
    errno.EISDIR: ("is_a_folder", "{path} is a folder; use list_files to see what is in it."),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("too_large", "{path} would be larger than the file system or a limit allows."),
    errno.EROFS: (
        "read_only_disk",
        "{path} lies on a read-only disk and was left as it was. Write elsewhere, or ask the user.",
    ),
    errno.EACCES: _NO_LEAVE,
    errno.EPERM: _NO_LEAVE,
    errno.ENAMETOOLONG: ("name_too_long", "A name in {path} is longer than the system allows."),
    errno.ELOOP: ("symlink_loop", "The symlinks in {path} lead in a circle or keep changing."),
    errno.EMFILE: ("too_many_open_files", "Too many files are open; try {path} again later."),
    errno.ENFILE: ("too_many_open_files", "Too many files are open; try {path} again later."),
}


def told(error: Exception, path: str) -> ToolResult:
    """Return the result that tells the model about one of ``MISFORTUNES``."""
    kind, sentence = describe(error, path)
    return failure(kind, sentence, path=path)


def describe(error: Exception, path: str) -> tuple[str, str]:
    """Return the kind of one of ``MISFORTUNES``, and its sentence."""
    if isinstance(error, OSError):
        return _describe_system(error, path)
    if isinstance(error, WrongFileType):
        if error.found == "folder":
            return "is_a_folder", f"{path} is a folder; use list_files to see what is in it."
        return "not_a_regular_file", (
            f"{path} is a {error.found}; the file tools work on regular files only."
        )
    if isinstance(error, AlreadyThere):
        return "already_exists", f"{path} exists already and was left as it was."
    return "changed_meanwhile", (
        f"{path} was changed by someone else at the same moment and was left as it was. "
        "Read it again, then repeat the call."
    )


def _describe_system(error: OSError, path: str) -> tuple[str, str]:
    if isinstance(error, FolderMissing):
        return "workspace_missing", (
            f"The folder {error.folder} itself is missing, so {path} was not looked for anywhere."
        )
    known = _SENTENCES.get(error.errno or 0)
    if known is None:
        reason = error.strerror or type(error).__name__
        return "system_error", f"The system refused the access to {path}: {reason}."
    kind, sentence = known
    return kind, sentence.format(path=path)
