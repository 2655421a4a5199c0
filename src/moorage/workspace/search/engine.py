"""Runs a search: with ripgrep, or with our own engine, each confined as any command is.

A search has two steps. Every file's matches are counted, which gives the totals and says which
files are on the page; then the lines of those few files are read. So the work does not grow with
the text that matches, and neither does memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio
import msgspec

from moorage.workspace.search.by_program import ProgramSearch
from moorage.workspace.search.hits import Collector, Record, SearchLimits, Sheet
from moorage.workspace.search.ripgrep import Ripgrep
from moorage.workspace.search.selection import Accepts, Query, SearchPlace

if TYPE_CHECKING:
    from moorage.confine.plan import Plan
    from moorage.process.supervisor import Supervisor


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One page of what was found, and the totals of all of it.

    ``is_binary`` says that the place is one binary file, whose lines are not shown.
    """

    records: tuple[Record, ...]
    total_records: int
    total_files: int
    total_matches: int
    token: str
    is_binary: bool = False
    has_unreadable: bool = False


class Search(Protocol):
    """One way to search: count, then read."""

    async def count(self, place: SearchPlace, query: Query, collector: Collector) -> bool:
        """Count the matches of every file; return whether something could not be read."""

    async def read(self, place: SearchPlace, query: Query, sheets: Mapping[bytes, Sheet]) -> None:
        """Read the lines of the files of a page."""

    async def list_files(self, place: SearchPlace, collector: Collector) -> bool:
        """Count the files themselves; return whether something could not be read."""


class Page(msgspec.Struct, frozen=True):
    """Which records are wanted, and what makes this question differ from others."""

    offset: int
    length: int
    question: tuple[str, ...] = ()


async def search(
    way: Search, place: SearchPlace, query: Query, page: Page, limits: SearchLimits
) -> Answer:
    """Return a page of records.

    Raises:
        PatternError: the pattern cannot be searched for; the message says why.
        SearchFailed: the program that searches did not do its work.
        TooDeep: the page lies too deep in the answer.
        TimeoutError: the search took longer than its limit.
        OSError: the place cannot be read.
    """
    with anyio.fail_after(limits.timeout_seconds):
        for attempt in range(limits.attempts):
            accepts = None if place.is_file else query.include.accepts
            collector = _collector(page, limits, accepts, counts_files=query.counts_files)
            has_unreadable = await way.count(place, query, collector)
            parts = collector.page(page.offset, page.length)
            sheets = {part.path: Sheet(part, limits) for part in parts}
            if query.counts_files or not sheets:
                records = [Record(part.path, part.matches) for part in parts]
                return _answer(collector, records, has_unreadable=has_unreadable)
            await way.read(place, query, sheets)
            is_whole = all(
                min(sheet.matches, sheet.wanted) == min(sheet.part.matches, sheet.wanted)
                for sheet in sheets.values()
            )
            if is_whole or attempt + 1 == limits.attempts:
                break
    if place.is_file and any(sheet.is_binary for sheet in sheets.values()):
        return _answer(collector, (), is_binary=True)
    records = [
        record
        for sheet in sheets.values()
        for record in sheet.records(before=query.before, after=query.after)
    ]
    return _answer(collector, records, has_unreadable=has_unreadable)


async def find_files(
    way: Search, place: SearchPlace, accepts: Accepts, page: Page, limits: SearchLimits
) -> Answer:
    """Return a page of the files of a folder that ``accepts`` says yes to.

    Raises:
        SearchFailed: the program that searches did not do its work.
        TooDeep: the page lies too deep in the answer.
        TimeoutError: the search took longer than its limit.
        OSError: the place cannot be read.
    """
    collector = _collector(page, limits, accepts, counts_files=True)
    with anyio.fail_after(limits.timeout_seconds):
        has_unreadable = await way.list_files(place, collector)
    parts = collector.page(page.offset, page.length)
    records = [Record(part.path, part.matches) for part in parts]
    return _answer(collector, records, has_unreadable=has_unreadable)


def way_to_search(program: str | None, supervisor: Supervisor, plan: Plan) -> Search:
    """Return the search with ripgrep, or our own where there is none."""
    if program is not None:
        return ProgramSearch(Ripgrep(program), supervisor, plan)
    # Its modules are needed only where ripgrep is missing; elsewhere they would cost a start.
    from moorage.workspace.search.own import OwnEngine  # noqa: PLC0415

    return ProgramSearch(OwnEngine(), supervisor, plan)


_MOST_FOUND = 16
_LONGEST_SEARCH_PATH = 128 * 1024
_found_programs: dict[tuple[str, str], str] = {}


def find_program(name: str, search_path: str) -> str | None:
    """Return the absolute path of a program on PATH.

    What was found is looked for only once; what is missing may be installed meanwhile.
    """
    known = _found_programs.get((name, search_path))
    if known is not None and os.access(known, os.X_OK):
        return known
    for folder in search_path.split(os.pathsep):
        candidate = f"{folder}/{name}"
        # A relative folder on PATH would make the answer depend on where one stands.
        if folder.startswith("/") and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            if len(_found_programs) >= _MOST_FOUND:
                _found_programs.clear()
            if len(search_path) <= _LONGEST_SEARCH_PATH:
                _found_programs[name, search_path] = candidate
            return candidate
    return None


def _collector(
    page: Page,
    limits: SearchLimits,
    accepts: Callable[[bytes], bool] | None,
    *,
    counts_files: bool,
) -> Collector:
    return Collector(
        need=page.offset + page.length,
        max_kept_bytes=limits.max_kept_bytes,
        question=page.question,
        accepts=accepts,
        counts_files=counts_files,
    )


def _answer(
    collector: Collector,
    records: Sequence[Record],
    *,
    is_binary: bool = False,
    has_unreadable: bool = False,
) -> Answer:
    return Answer(
        records=tuple(records),
        total_records=collector.total_records,
        total_files=collector.total_files,
        total_matches=collector.total_matches,
        token=collector.token(),
        is_binary=is_binary,
        has_unreadable=has_unreadable,
    )
