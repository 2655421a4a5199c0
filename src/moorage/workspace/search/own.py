"""The search without ripgrep: our own walker and scanner, in a thread."""

from __future__ import annotations

import os
from collections.abc import Mapping

from anyio import from_thread, to_thread

from moorage.workspace.opening.beneath import open_beneath
from moorage.workspace.search.hits import Collector, Sheet, file_state
from moorage.workspace.search.pattern import parse
from moorage.workspace.search.scan import LineFinder, Scanner
from moorage.workspace.search.selection import Query, SearchPlace
from moorage.workspace.search.walker import FILE_FLAGS, Walker


class OwnSearch:
    """Searches one place; the same two steps as with ripgrep."""

    async def count(self, place: SearchPlace, query: Query, collector: Collector) -> bool:
        """Count the matches of every file; return whether something could not be read.

        Raises:
            PatternError: the pattern cannot be searched for.
        """
        return await to_thread.run_sync(_count, place, query, collector)

    async def read(self, place: SearchPlace, query: Query, sheets: Mapping[bytes, Sheet]) -> None:
        """Read the lines of the files of a page."""
        await to_thread.run_sync(_read, place, query, sheets)

    async def list_files(self, place: SearchPlace, collector: Collector) -> bool:
        """Count the files themselves; return whether something could not be read."""
        return await to_thread.run_sync(_list_files, place, collector)


def _scanner(query: Query) -> Scanner:
    finder = LineFinder(parse(query.pattern, ignore_case=query.ignore_case))
    return Scanner(finder, before=query.before, after=query.after)


def _walker(place: SearchPlace) -> Walker:
    return Walker(excluded=frozenset(place.excluded), check=from_thread.check_cancelled)


def _count(place: SearchPlace, query: Query, collector: Collector) -> bool:
    scanner = _scanner(query)
    if place.is_file:
        os.lseek(place.fd, 0, os.SEEK_SET)
        count = scanner.count(place.fd, is_named=True)
        if count:
            collector.add(place.name, count, file_state(os.fstat(place.fd)))
        return False
    walker = _walker(place)
    unread = 0
    for found in walker.files(place.fd, above=place.absolute):
        path = os.fsencode(found.path)
        if not collector.accepts(path):
            continue
        from_thread.check_cancelled()
        try:
            fd = os.open(found.name, FILE_FLAGS, dir_fd=found.folder_fd)
        except OSError:
            unread += 1
            continue
        try:
            if count := scanner.count(fd):
                collector.add(path, count, file_state(os.fstat(fd)))
        except OSError:
            unread += 1
        finally:
            os.close(fd)
    return unread + walker.unreadable > 0


def _read(place: SearchPlace, query: Query, sheets: Mapping[bytes, Sheet]) -> None:
    scanner = _scanner(query)
    for path, sheet in sheets.items():
        from_thread.check_cancelled()
        if place.is_file:
            os.lseek(place.fd, 0, os.SEEK_SET)
            scanner.read(place.fd, sheet)
            continue
        try:
            fd = open_beneath(place.fd, os.fsdecode(path), FILE_FLAGS)
        except OSError:
            continue
        try:
            scanner.read(fd, sheet)
        finally:
            os.close(fd)


def _list_files(place: SearchPlace, collector: Collector) -> bool:
    walker = _walker(place)
    for found in walker.files(place.fd, above=place.absolute):
        path = os.fsencode(found.path)
        if collector.accepts(path):
            collector.add(path, 1)
    return walker.unreadable > 0
