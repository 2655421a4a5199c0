"""The answer when a file is missing: names in the same folder that are nearly right."""

from __future__ import annotations

import os
import posixpath
from itertools import islice
from typing import TYPE_CHECKING

from moorage.errors import ExecutionError
from moorage.tools.misfortunes import MISFORTUNES, describe
from moorage.tools.results import failure
from moorage.workspace.opening.location import FolderMissing
from moorage.workspace.protected import is_protected_name
from moorage.workspace.text.nearest import nearest_names

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.tools.file_limits import FileLimits


def missing_file(
    error: FileNotFoundError, path: str, context: ToolContext, limits: FileLimits
) -> ToolResult:
    """Return the result for a file that does not exist."""
    kind, sentence = describe(error, path)
    near = [] if isinstance(error, FolderMissing) else _nearest(path, context, limits)
    if near:
        sentence += f" Did you mean {' or '.join(near)}?"
    elif kind == "not_found":
        sentence += " Use list_files or glob to see what is there."
    return failure(kind, sentence, path=path, nearest=near)


def _nearest(path: str, context: ToolContext, limits: FileLimits) -> list[str]:
    folder, name = posixpath.split(path)
    try:
        fd, _ = context.root.open_directory(folder or ".", context.mode)
    except (*MISFORTUNES, ExecutionError):
        return []
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in islice(entries, limits.scanned_names)]
    except OSError:
        return []
    finally:
        os.close(fd)
    allowed = (other for other in names if not is_protected_name(other))
    near = nearest_names(name, allowed, limits.suggested_names)
    return [posixpath.join(folder, other) for other in near]
