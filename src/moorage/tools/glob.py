"""``glob``: files whose paths match a pattern, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.errors import InvalidArguments
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, GlobArguments
from moorage.tools.file_names import below, readable
from moorage.tools.paging import check_page, is_stale, page_facts, page_view, stale, unnamed
from moorage.tools.results import success
from moorage.tools.searching import SEARCH_MISFORTUNES, opened_place, search_failure, search_way
from moorage.workspace.opening.location import FolderMissing
from moorage.workspace.search.engine import Answer, Page, find_files
from moorage.workspace.search.hits import SearchLimits
from moorage.workspace.search.selection import path_matcher, split_pattern

if TYPE_CHECKING:
    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext

_NOTHING = Answer(records=(), total_records=0, total_files=0, total_matches=0, token="")


class Glob:
    """Finds files by name, obeying ignore files; protected ones are counted, not named."""

    spec = WORKSPACE_TOOLS["glob"]

    def __init__(self, limits: SearchLimits | None = None) -> None:
        """Keep the bounds."""
        self._limits = limits or SearchLimits()

    async def run(self, arguments: GlobArguments, context: ToolContext) -> ToolResult:
        """Return a page of paths; none at all is an answer too.

        Raises:
            Refused: the path leads outside.
            InvalidArguments: no pattern, or an offset without the token of the first page.
        """
        check_page(arguments.offset, arguments.expected_revision)
        if not arguments.pattern.strip() or "\0" in arguments.pattern:
            raise InvalidArguments("the pattern is empty or no name.", hint="Try **/*.py.")
        folder, rest = split_pattern(arguments.pattern)
        start = below(arguments.path or ".", folder) if folder else arguments.path or "."
        finding = _Finding(context, arguments.offset, self._limits)
        try:
            await finding.run(start, rest)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not folder or isinstance(error, FolderMissing):
                return search_failure(error, start, arguments.offset, self._limits)
        except SEARCH_MISFORTUNES as error:
            return search_failure(error, start, arguments.offset, self._limits)
        if is_stale(arguments.offset, arguments.expected_revision, finding.answer.token):
            return stale("The set of matching files")
        return finding.result(arguments.pattern)


class _Finding:
    """One look for files, and what came of it."""

    def __init__(self, context: ToolContext, offset: int, limits: SearchLimits) -> None:
        self._context = context
        self._offset = offset
        self._limits = limits
        self._protected = 0
        self._display = ""
        self.answer = _NOTHING

    async def run(self, start: str, pattern: str) -> None:
        """Look in the folder ``start``."""
        matches = path_matcher(pattern)
        context = self._context
        with opened_place(start, context, takes_files=False) as (place, location):
            self._display = location.display
            absolute = location.absolute.rstrip("/")

            def accepts(path: bytes) -> bool:
                if not matches(path):
                    return False
                is_hidden = context.mode.is_restricted and context.root.is_protected(
                    f"{absolute}/{readable(path)}"
                )
                self._protected += is_hidden
                return not is_hidden

            page = Page(self._offset, self._limits.page_paths, ("glob", absolute, pattern))
            way = search_way(context)
            self.answer = await find_files(way, place, accepts, page, self._limits)

    def result(self, pattern: str) -> ToolResult:
        """Return what was found."""
        answer = self.answer
        paths = [below(readable(self._display), readable(found.path)) for found in answer.records]
        facts = page_facts(self._offset, len(paths), answer.total_records, answer.token)
        notes = unnamed(self._protected, "file", "files")
        if answer.has_unreadable:
            notes.append("some folders could not be read")
        if not paths and not pattern.startswith("**"):
            notes.append("a * does not cross folders; ** does")
        text = page_view(paths, facts, "paths", notes)
        structured = {
            "action": "glob",
            "pattern": pattern,
            "paths": paths,
            "protected_count": self._protected,
            "has_unreadable": answer.has_unreadable,
            **facts,
        }
        return success(text if paths else f"No file matches.\n{text}".rstrip("\n"), structured)


TOOL = Glob()
