"""``list_files``: the entries of one folder, page by page."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio import from_thread

from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ListFilesArguments
from moorage.tools.file_names import below, readable
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.paging import (
    check_page,
    is_stale,
    page_facts,
    page_view,
    stale,
    too_deep,
    unnamed,
)
from moorage.tools.results import failure, success
from moorage.workspace.search.hits import Collector, TooDeep

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.workspace.opening.location import Location

# How many entries go by before it is asked whether the caller still waits.
_ENTRIES_PER_CHECK = 4096


class ListingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a listing."""

    page_entries: int = 1000
    max_kept_bytes: int = 32 * 1024 * 1024


class _Listing(msgspec.Struct, frozen=True):
    """One page of a folder, and the totals."""

    entries: list[dict[str, Any]]
    total: int
    protected: int
    token: str


class ListFiles:
    """Lists a folder, hidden and ignored entries too; protected ones are counted, not named."""

    spec = WORKSPACE_TOOLS["list_files"]

    def __init__(self, limits: ListingLimits | None = None) -> None:
        """Keep the bounds."""
        self._limits = limits or ListingLimits()

    async def run(self, arguments: ListFilesArguments, context: ToolContext) -> ToolResult:
        """Return a page of the folder, or why it cannot be had.

        Raises:
            Refused: the path leads outside.
            InvalidArguments: an offset without the token of the first page.
        """
        path = arguments.path or "."
        check_page(arguments.offset, arguments.expected_revision)
        try:
            fd, location = context.root.open_directory(path, context.mode)
        except NotADirectoryError:
            return failure(
                "not_a_folder", f"{path} is no folder; use read_file to see it.", path=path
            )
        except MISFORTUNES as error:
            return told(error, path)
        try:
            listing = await anyio.to_thread.run_sync(
                self._list, fd, location, arguments.offset, _protects(location, context)
            )
        except TooDeep:
            return too_deep(arguments.offset)
        except MISFORTUNES as error:
            return told(error, path)
        finally:
            os.close(fd)
        if is_stale(arguments.offset, arguments.expected_revision, listing.token):
            return stale(location.display)
        return _result(location, listing, arguments.offset)

    def _list(
        self, fd: int, location: Location, offset: int, protects: Callable[[str], bool]
    ) -> _Listing:
        """Read the folder; runs in a thread."""
        length = self._limits.page_entries
        collector = Collector(
            need=offset + length,
            max_kept_bytes=self._limits.max_kept_bytes,
            question=("list_files", location.absolute),
            counts_files=True,
        )
        protected = 0
        with os.scandir(fd) as entries:
            for number, entry in enumerate(entries):
                if number % _ENTRIES_PER_CHECK == 0:
                    from_thread.check_cancelled()
                if protects(entry.name):
                    protected += 1
                    continue
                mark = b"/" if entry.is_dir(follow_symlinks=False) else b""
                collector.add(os.fsencode(entry.name) + mark, 1)
        page = collector.page(offset, length)
        return _Listing(
            entries=[_entry(fd, location, os.fsdecode(part.path)) for part in page],
            total=collector.total_files,
            protected=protected,
            token=collector.token(),
        )


def _protects(location: Location, context: ToolContext) -> Callable[[str], bool]:
    """Return whether an entry of the folder must not be named."""
    if not context.mode.is_restricted:
        return lambda _: False
    folder = location.absolute.rstrip("/")
    return lambda name: context.root.is_protected(f"{folder}/{name}")


def _entry(fd: int, location: Location, marked: str) -> dict[str, Any]:
    name = marked.removesuffix("/")
    entry: dict[str, Any] = {
        "name": readable(name),
        "path": readable(below(location.display, name)),
        "is_dir": marked.endswith("/"),
        "size": 0,
    }
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return entry  # it went away meanwhile
    if not entry["is_dir"]:
        entry["size"] = status.st_size
    if stat.S_ISLNK(status.st_mode):
        entry["is_symlink"] = True
    return entry


def _result(location: Location, listing: _Listing, offset: int) -> ToolResult:
    facts = page_facts(offset, len(listing.entries), listing.total, listing.token)
    notes = unnamed(listing.protected, "entry", "entries")
    items = [_line(entry) for entry in listing.entries]
    text = page_view(items, facts, "entries", notes)
    structured = {
        "action": "list_files",
        "path": readable(location.display),
        "entries": listing.entries,
        "protected_count": listing.protected,
        **facts,
    }
    return success(text or "(empty folder)", structured)


def _line(entry: dict[str, Any]) -> str:
    if entry["is_dir"]:
        return f"{entry['name']}/"
    if entry.get("is_symlink"):
        return f"{entry['name']}  symlink"
    return f"{entry['name']}  {entry['size']} bytes"


TOOL = ListFiles()
