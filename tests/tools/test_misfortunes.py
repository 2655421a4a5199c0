from __future__ import annotations

import errno
import os

import pytest

from moorage.tools.misfortunes import describe, told
from moorage.workspace.files import ChangedMeanwhile
from moorage.workspace.opening.location import FolderMissing, WrongFileType
from moorage.workspace.staged import AlreadyThere


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(errno.ENOENT, "x"), "not_found"),
        (OSError(errno.ENOSPC, "x"), "disk_full"),
        (OSError(errno.EDQUOT, "x"), "disk_full"),
        (OSError(errno.EROFS, "x"), "read_only_disk"),
        (PermissionError(errno.EACCES, "x"), "permission_denied"),
        (IsADirectoryError(errno.EISDIR, "x"), "is_a_folder"),
        (NotADirectoryError(errno.ENOTDIR, "x"), "not_a_folder"),
        (OSError(errno.ENAMETOOLONG, "x"), "name_too_long"),
        (OSError(errno.ELOOP, "x"), "symlink_loop"),
        (OSError(errno.EMFILE, "x"), "too_many_open_files"),
        (OSError(errno.EFBIG, "x"), "too_large"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "system_error"),
        (OSError("no number"), "system_error"),
        (WrongFileType("a", "folder"), "is_a_folder"),
        (WrongFileType("a", "socket"), "not_a_regular_file"),
        (AlreadyThere("a"), "already_exists"),
        (ChangedMeanwhile("a"), "changed_meanwhile"),
        (FolderMissing("/work"), "workspace_missing"),
    ],
)
def test_each_misfortune_has_a_kind_and_one_telling_sentence(error: Exception, kind: str) -> None:
    found, sentence = describe(error, "src/a.txt")
    assert found == kind
    assert "src/a.txt" in sentence
    result = told(error, "src/a.txt")
    assert result.is_error
    assert result.structured_content["error_kind"] == kind
    assert result.text == sentence
