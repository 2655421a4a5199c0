"""Names of files as a result shows them: always valid text, always from the workspace's view."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from moorage.workspace.paths import beneath

if TYPE_CHECKING:
    from moorage.tools.catalogue import ToolContext


def readable(name: str | bytes) -> str:
    """Return a name as text; bytes that are no UTF-8 become replacement characters."""
    data = name if isinstance(name, bytes) else os.fsencode(name)
    return data.decode("utf-8", "replace")


def below(folder: str, name: str) -> str:
    """Return the display path of a name below a folder with the display path ``folder``."""
    if folder in ("", "."):
        return name
    return f"{folder.rstrip('/')}/{name}"


def unsearched(folder: str, context: ToolContext) -> tuple[str, ...]:
    """Return what no search in ``folder`` (an absolute path) looks into, relative to it.

    Moorage's own folders: what a search writes there must not be found by it.
    """
    own = (*context.plan.hidden_paths, str(context.state_dir))
    found = {beneath(folder, path) for path in own}
    return tuple(sorted(path for path in found if path is not None and path != "."))
