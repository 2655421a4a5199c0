"""The search with ripgrep: what is run, and what is done with the output.

A small answer comes from one run that prints every line. A large one comes from two: one counts,
which is cheap however much matches, and one prints the lines of the few files of the page.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anyio import to_thread

from moorage.errors import WorkerFailure
from moorage.process.reading import read_program
from moorage.process.spec import ProgramSpec
from moorage.workspace.search.hits import Collector, Sheet, file_state
from moorage.workspace.search.pattern import PatternError
from moorage.workspace.search.ripgrep import (
    CountStream,
    JsonStream,
    PathStream,
    count_argv,
    file_counts,
    files_argv,
    lines_argv,
    select,
)
from moorage.workspace.search.selection import Include, Query, SearchPlace

if TYPE_CHECKING:
    from moorage.confine.plan import Plan
    from moorage.process.reading import ProgramEnd, Take
    from moorage.process.supervisor import Supervisor

# About 4,000 matching lines in JSON: more than several pages, and parsed in milliseconds.
SMALL_ANSWER_BYTES = 1024 * 1024
# Files whose states are looked up at once; each time costs a change of thread.
_BATCH_FILES = 1000
# ripgrep's exit code when something could not be read, or the pattern is bad.
_HAD_ERRORS = 2
# How ripgrep calls its standard input.
_INPUT = b"<stdin>"


class RipgrepSearch:
    """One search with ripgrep under a confinement plan."""

    def __init__(
        self,
        program: str,
        supervisor: Supervisor,
        plan: Plan,
        *,
        small_bytes: int = SMALL_ANSWER_BYTES,
    ) -> None:
        """Keep the program, how it is started, and what counts as a small answer."""
        self._program = program
        self._supervisor = supervisor
        self._plan = plan
        self._small_bytes = small_bytes
        self._answer: bytes | None = None

    async def count(self, place: SearchPlace, query: Query, collector: Collector) -> bool:
        """Count the matches of every file; return whether something could not be read.

        Raises:
            PatternError: the pattern cannot be searched for.
        """
        if not query.counts_files:
            has_unreadable = await self._read_all(place, query, collector)
            if self._answer is not None:
                return has_unreadable
        stream = CountStream()
        waiting: list[tuple[bytes, int]] = []
        has_output = False

        async def take(chunk: bytes) -> None:
            nonlocal has_output
            has_output = True
            waiting.extend(stream.feed(chunk))
            if len(waiting) >= _BATCH_FILES:
                await to_thread.run_sync(_weigh, waiting, place, query, collector)
                waiting.clear()

        argv = count_argv(
            self._program,
            query.pattern,
            flags=_case_flags(query),
            selection=None if place.is_file else _selection(place, query.include),
        )
        end = await self._run(argv, place, take)
        if end.complaint and not has_output:
            raise PatternError(_reason(end.complaint))
        await to_thread.run_sync(_weigh, waiting, place, query, collector)
        return end.status.exit_code == _HAD_ERRORS

    async def _read_all(self, place: SearchPlace, query: Query, collector: Collector) -> bool:
        """Try to do with one run: keep its whole answer, unless that is too large."""
        pieces: list[bytes] = []
        size = 0

        async def take(chunk: bytes) -> bool:
            nonlocal size
            size += len(chunk)
            pieces.append(chunk)
            return size > self._small_bytes

        argv = lines_argv(
            self._program,
            query.pattern,
            ["-" if place.is_file else "./"],
            flags=_line_flags(query),
            selection=() if place.is_file else _selection(place, query.include),
        )
        end = await self._run(argv, place, take)
        self._answer = None if end.is_stopped else b"".join(pieces)
        if self._answer is None:
            return False
        if end.complaint and not self._answer:
            raise PatternError(_reason(end.complaint))
        counts = file_counts(self._answer, with_binary=place.is_file)
        await to_thread.run_sync(_weigh, counts, place, query, collector)
        return end.status.exit_code == _HAD_ERRORS

    async def read(self, place: SearchPlace, query: Query, sheets: Mapping[bytes, Sheet]) -> None:
        """Read the lines of the files of a page."""
        stream = JsonStream({_INPUT: sheets[place.name]} if place.is_file else sheets)
        if self._answer is not None:
            stream.feed(self._answer)
            return
        flags = [
            *_line_flags(query),
            # For so few files, threads cost more to start than they save.
            "--threads=1",
            # One more, so that the lines after the last wanted one are printed in any case.
            f"--max-count={max(sheet.wanted for sheet in sheets.values()) + 1}",
        ]
        paths = ["-"] if place.is_file else [f"./{os.fsdecode(path)}" for path in sheets]

        async def take(chunk: bytes) -> None:
            stream.feed(chunk)

        await self._run(lines_argv(self._program, query.pattern, paths, flags=flags), place, take)

    async def list_files(self, place: SearchPlace, collector: Collector) -> bool:
        """Count the files themselves; return whether something could not be read."""
        stream = PathStream()

        async def take(chunk: bytes) -> None:
            for path in stream.feed(chunk):
                if collector.accepts(path):
                    collector.add(path, 1)

        argv = files_argv(self._program, selection=_selection(place, Include()))
        end = await self._run(argv, place, take)
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
            label="ripgrep",
        )
        end = await read_program(self._supervisor, spec, take)
        if end.status.exit_code is None and not end.is_stopped:
            raise WorkerFailure(f"ripgrep was ended by signal {end.status.signal}.")
        return end


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
        except OSError:
            state = b"gone"
        collector.add(path, matches, state)


def _selection(place: SearchPlace, include: Include) -> tuple[str, ...]:
    return select(excluded=place.excluded, name_glob=include.name_glob)


def _case_flags(query: Query) -> list[str]:
    return ["--ignore-case"] if query.ignore_case else []


def _line_flags(query: Query) -> list[str]:
    around = [f"--before-context={query.before}", f"--after-context={query.after}"]
    return [*_case_flags(query), *around]


def _reason(complaint: bytes) -> str:
    """Return what ripgrep says of a pattern, without advice about flags that nobody can pass."""
    text = complaint.decode("utf-8", "replace").removeprefix("rg: ")
    return text.partition("\n\nConsider ")[0].strip()
