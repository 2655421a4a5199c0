"""What ``grep`` and ``glob`` have in common: the place, the engine, and what can go wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moorage.tools.file_names import unsearched
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.paging import too_deep, too_slow
from moorage.tools.results import failure
from moorage.workspace.search.engine import Search, find_program, way_to_search
from moorage.workspace.search.globs import GlobError
from moorage.workspace.search.hits import TooDeep
from moorage.workspace.search.selection import PatternError, SearchFailed, SearchPlace

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.workspace.opening.location import Location
    from moorage.workspace.search.hits import SearchLimits

SEARCH_MISFORTUNES = (*MISFORTUNES, TooDeep, TimeoutError, PatternError, GlobError, SearchFailed)


def search_way(context: ToolContext) -> Search:
    """Return the search with ripgrep when the worker's PATH has it, else our own."""
    search_path = context.variables.get("PATH") or os.environ.get("PATH", os.defpath)
    return way_to_search(find_program("rg", search_path), context.supervisor, context.plan)


@contextmanager
def opened_place(
    path: str, context: ToolContext, *, takes_files: bool
) -> Iterator[tuple[SearchPlace, Location]]:
    """Open a folder, or a file named directly, for a search.

    Raises:
        Refused: the path leads outside.
        OSError: it is missing, or the system refuses.
    """
    is_file = False
    try:
        fd, location = context.root.open_directory(path, context.mode)
    except NotADirectoryError:
        if not takes_files:
            raise
        # What a protected file matches is masked, so it may be searched in any mode.
        fd, location = context.root.open_read(path, context.mode, with_protected=True)
        is_file = True
    try:
        excluded = () if is_file else unsearched(location.absolute, context)
        place = SearchPlace(fd=fd, absolute=location.absolute, is_file=is_file, excluded=excluded)
        yield place, location
    finally:
        os.close(fd)


def search_failure(error: Exception, path: str, offset: int, limits: SearchLimits) -> ToolResult:
    """Return the result that tells the model about one of ``SEARCH_MISFORTUNES``."""
    match error:
        case PatternError():
            return failure("bad_pattern", f"The pattern cannot be searched for: {error}")
        case GlobError():
            return failure("bad_pattern", f"The glob cannot be used: {error}.")
        case SearchFailed():
            return failure("search_failed", f"The search failed: {error}")
        case TooDeep():
            return too_deep(offset)
        case TimeoutError():
            return too_slow(limits.timeout_seconds)
        case _:
            return told(error, path)
