"""A search by a program that is run as any command is: ripgrep, or our own engine.

A small answer comes from one run that prints every line. A large one comes from two: one counts,
which is cheap however much matches, and one prints the lines of the few files of the page.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio
from anyio import to_thread

from moorage.process.reading import read_program
from moorage.process.spec import ProgramSpec
from moorage.workspace.search.hits import Collector, Sheet, file_state
from moorage.workspace.search.output import (
    CountStream,
    Garbled,
    JsonStream,
    PathStream,
    file_counts,
)
from moorage.workspace.search.selection import PatternError, Query, SearchFailed, SearchPlace

if TYPE_CHECKING:
    from moorage.confine.plan import Plan
    from moorage.process.reading import ProgramEnd, Take
    from moorage.process.supervisor import Supervisor

T = TypeVar("T")

# About 4,000 matching lines in JSON: more than several pages, and parsed in milliseconds.
SMALL_ANSWER_BYTES = 1024 * 1024
# Files whose states are looked up at once; each time costs a change of thread.
_BATCH_FILES = 1000
# The exit code when something could not be read, or the pattern is bad.
_HAD_ERRORS = 2
# How standard input is called in the output.
_INPUT = b"<stdin>"
# More than this at a time is taken apart in a thread: it may hold as many records as bytes.
_INLINE_BYTES = 16 * 1024


class Engine(Protocol):
    """A program that searches, and prints what ripgrep prints."""

    @property
    def name(self) -> str:
        """Return what messages call it."""

    @property
    def exit_codes(self) -> frozenset[int]:
        """Return the exit codes of a search; any other is a failure."""

    def count_argv(self, place: SearchPlace, query: Query) -> tuple[str, ...]:
        """Return the argument vector that counts matching lines per file."""

    def lines_argv(
        self,
        place: SearchPlace,
        query: Query,
        *,
        paths: Sequence[bytes] | None = None,
        most: int | None = None,
    ) -> tuple[str, ...]:
        """Return the argument vector that prints matching lines, of all files or of ``paths``."""

    def files_argv(self, place: SearchPlace) -> tuple[str, ...]:
        """Return the argument vector that lists the files that a search would read."""

    def reason(self, complaint: bytes) -> str:
        """Return what is said of a pattern."""


class ProgramSearch:
    """One search by a program under a confinement plan."""

    def __init__(
        self,
        engine: Engine,
        supervisor: Supervisor,
        plan: Plan,
        *,
        small_bytes: int = SMALL_ANSWER_BYTES,
    ) -> None:
        """Keep the program, how it is started, and what counts as a small answer."""
        self._engine = engine
        self._supervisor = supervisor
        self._plan = plan
        self._small_bytes = small_bytes
        self._answer: bytes | None = None

    async def count(self, place: SearchPlace, query: Query, collector: Collector) -> bool:
        """Count the matches of every file; return whether something could not be read.

        Raises:
            PatternError: the pattern cannot be searched for.
            SearchFailed: the program did not do its work.
        """
        self._answer = None
        if not query.counts_files:
            has_unreadable = await self._read_all(place, query, collector)
            if has_unreadable is not None:
                return has_unreadable
        stream = CountStream()
        waiting: list[tuple[bytes, int]] = []
        has_output = False

        async def take(chunk: bytes) -> None:
            nonlocal has_output
            has_output = True
            waiting.extend(await _apart(stream.feed, chunk))
            if len(waiting) >= _BATCH_FILES:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(_weigh, waiting, place, query, collector)
                waiting.clear()

        end = await self._run(self._engine.count_argv(place, query), place, take)
        self._check_pattern(end, has_output=has_output)
        await to_thread.run_sync(_weigh, waiting, place, query, collector)
        return end.status.exit_code == _HAD_ERRORS

    async def _read_all(
        self, place: SearchPlace, query: Query, collector: Collector
    ) -> bool | None:
        """Try to do with one run: keep its whole answer; None when that is too large."""
        pieces: list[bytes] = []
        size = 0

        async def take(chunk: bytes) -> bool:
            nonlocal size
            size += len(chunk)
            pieces.append(chunk)
            return size > self._small_bytes

        end = await self._run(self._engine.lines_argv(place, query), place, take)
        answer = b"".join(pieces)
        if end.is_stopped:
            return None
        self._check_pattern(end, has_output=bool(answer))
        try:
            await to_thread.run_sync(_weigh_answer, answer, place, query, collector)
        except Garbled:
            raise self._garbled() from None
        self._answer = answer
        return end.status.exit_code == _HAD_ERRORS

    async def read(self, place: SearchPlace, query: Query, sheets: Mapping[bytes, Sheet]) -> None:
        """Read the lines of the files of a page.

        Raises:
            SearchFailed: the program did not do its work.
        """
        stream = JsonStream({_INPUT: sheets[place.name]} if place.is_file else sheets)

        async def take(chunk: bytes) -> None:
            await _apart(stream.feed, chunk)

        if self._answer is not None:
            try:
                await take(self._answer)
            except Garbled:
                raise self._garbled() from None
            return
        # One more, so that the lines after the last wanted one are printed in any case.
        most = max(sheet.wanted for sheet in sheets.values()) + 1
        argv = self._engine.lines_argv(place, query, paths=list(sheets), most=most)
        await self._run(argv, place, take)

    async def list_files(self, place: SearchPlace, collector: Collector) -> bool:
        """Count the files themselves; return whether something could not be read.

        Raises:
            SearchFailed: the program did not do its work.
        """
        stream = PathStream()

        def collect(chunk: bytes) -> None:
            for path in stream.feed(chunk):
                if collector.accepts(path):
                    collector.add(path, 1)

        async def take(chunk: bytes) -> None:
            await _apart(collect, chunk)

        end = await self._run(self._engine.files_argv(place), place, take)
        return end.status.exit_code == _HAD_ERRORS

    async def _run(self, argv: tuple[str, ...], place: SearchPlace, take: Take) -> ProgramEnd:
        if place.is_file:
            os.lseek(place.fd, 0, os.SEEK_SET)
        spec = ProgramSpec(
            argv=argv,
            plan=self._plan,
            cwd="/" if place.is_file else place.absolute,
            cwd_fd=None if place.is_file else place.fd,
            stdin_fd=place.fd if place.is_file else None,
            label="search",
        )
        try:
            end = await read_program(self._supervisor, spec, take)
        except Garbled:
            raise self._garbled() from None
        if not end.is_stopped and end.status.exit_code not in self._engine.exit_codes:
            raise SearchFailed(f"{self._engine.name} {end.description}; nothing is returned.")
        return end

    def _check_pattern(self, end: ProgramEnd, *, has_output: bool) -> None:
        if end.complaint and not has_output and end.status.exit_code == _HAD_ERRORS:
            raise PatternError(self._engine.reason(end.complaint))

    def _garbled(self) -> SearchFailed:
        return SearchFailed(
            f"what {self._engine.name} printed is no output of a search, so it is not ripgrep. "
            "Remove it from PATH, or search with grep in bash."
        )


async def _apart(function: Callable[[bytes], T], data: bytes) -> T:
    """Return what the function makes of the data, without holding up the event loop."""
    if len(data) <= _INLINE_BYTES:
        return function(data)
    # The end of the program ends the reading; what was read by then must not be lost.
    with anyio.CancelScope(shield=True):
        found = await to_thread.run_sync(function, data)
    return found  # noqa: RET504 - a scope could swallow what passes it, as far as types know


def _weigh_answer(answer: bytes, place: SearchPlace, query: Query, collector: Collector) -> None:
    _weigh(file_counts(answer, with_binary=place.is_file), place, query, collector)


def _weigh(
    counts: Sequence[tuple[bytes, int]], place: SearchPlace, query: Query, collector: Collector
) -> None:
    """Collect counted files together with their states; runs in a thread, for the disk's sake."""
    if place.is_file:
        for _, matches in counts:
            collector.add(place.name, matches, file_state(os.fstat(place.fd)))
        return
    accepts = None if query.include.is_told else query.include.accepts
    for path, matches in counts:
        if accepts is not None and not accepts(path):
            continue
        try:
            state = file_state(os.stat(path, dir_fd=place.fd, follow_symlinks=False))
        except (OSError, ValueError):
            state = b"gone"
        collector.add(path, matches, state)
