"""A search as a whole: files that change meanwhile, programs that die, and who searches."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor
from moorage.workspace.search.by_program import ProgramSearch
from moorage.workspace.search.engine import (
    Page,
    find_files,
    find_program,
    search,
    way_to_search,
)
from moorage.workspace.search.hits import Collector, Line, SearchLimits, Sheet
from moorage.workspace.search.own import OwnEngine
from moorage.workspace.search.ripgrep import Ripgrep
from moorage.workspace.search.selection import Query, SearchFailed, SearchPlace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SearchPlace]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield SearchPlace(fd=fd, absolute=os.path.realpath(tmp_path))
    os.close(fd)


class ChangingFile:
    """A search of a file that has one line less when it is read than when it was counted."""

    def __init__(self, changes: int) -> None:
        self.changes = changes
        self.attempts = 0

    async def count(self, place: SearchPlace, query: Query, collector: Collector) -> bool:
        self.attempts += 1
        collector.add(b"f", 3)
        return False

    async def read(self, place: SearchPlace, query: Query, sheets: Mapping[bytes, Sheet]) -> None:
        lines = 2 if self.attempts <= self.changes else 3
        for number in range(lines):
            sheets[b"f"].add(Line(number + 1, b"x", is_match=True))

    async def list_files(self, place: SearchPlace, collector: Collector) -> bool:
        raise NotImplementedError


@pytest.mark.parametrize(("changes", "attempts", "records"), [(0, 1, 3), (1, 2, 3), (9, 3, 2)])
async def test_a_file_that_changes_between_counting_and_reading_is_searched_again(
    place: SearchPlace, changes: int, attempts: int, records: int
) -> None:
    way = ChangingFile(changes)
    answer = await search(way, place, Query(pattern="x"), Page(0, 9), SearchLimits())
    assert (way.attempts, len(answer.records)) == (attempts, records)


@pytest.mark.needs("landlock")
async def test_a_file_that_goes_away_before_it_is_read_gives_no_record(
    place: SearchPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    supervisor: Supervisor,
) -> None:
    (tmp_path / "a").write_text("x\n")
    (tmp_path / "b").write_text("x\n")
    way = own(place, supervisor, small_bytes=0)
    real_read = way.read

    async def read(*arguments) -> None:
        (tmp_path / "a").unlink(missing_ok=True)
        await real_read(*arguments)

    monkeypatch.setattr(way, "read", read)
    answer = await search(way, place, Query(pattern="x"), Page(0, 9), SearchLimits())
    assert [record.path for record in answer.records] == [b"b"]


def own(place: SearchPlace, supervisor: Supervisor, *, small_bytes: int = 10**6) -> ProgramSearch:
    plan = Plan(mode=PermissionMode.STANDARD, writable_roots=(place.absolute,))
    return ProgramSearch(OwnEngine(), supervisor, plan, small_bytes=small_bytes)


def planted(place: SearchPlace, supervisor: Supervisor, body: str) -> ProgramSearch:
    """Return a search with a program that only has the name of ripgrep."""
    program = Path(place.absolute) / "rg"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    plan = Plan(mode=PermissionMode.STANDARD, writable_roots=(place.absolute,))
    return ProgramSearch(Ripgrep(str(program)), supervisor, plan)


SHORT = SearchLimits(timeout_seconds=0.5)
QUESTIONS = [Query(pattern="x"), Query(pattern="x", counts_files=True), None]
EMPTY_LINE = '{"type":"context","data":{"lines":{"text":""},"line_number":1,"submatches":[]}}'


async def ask(way: ProgramSearch, place: SearchPlace, query: Query | None) -> None:
    """Search, or without a query list the files."""
    with anyio.fail_after(5):
        if query is None:
            await find_files(way, place, lambda _: True, Page(0, 9), SHORT)
        else:
            await search(way, place, query, Page(0, 9), SHORT)


@pytest.mark.needs("landlock")
@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("kill -9 $$", "ended by signal 9"),
        ("echo no rg here >&2; exit 7", "exit code 7 .no rg here"),
    ],
)
async def test_a_program_that_does_not_do_its_work_is_one_clear_error(
    place: SearchPlace, supervisor: Supervisor, query: Query | None, body: str, words: str
) -> None:
    with pytest.raises(SearchFailed, match=words):
        await ask(planted(place, supervisor, body), place, query)


@pytest.mark.needs("landlock")
@pytest.mark.parametrize("query", QUESTIONS)
@pytest.mark.parametrize(
    "body",
    [
        "exec sleep 60",
        "exec yes",
        "exec tr '\\0' x < /dev/zero",
        "exec cat /dev/zero",
        "while :; do printf 'a\\0'; done",
        f"exec yes '{EMPTY_LINE}'",
    ],
)
async def test_a_program_that_never_ends_is_ended_while_the_worker_answers(
    place: SearchPlace, supervisor: Supervisor, query: Query | None, body: str
) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns)
        with pytest.raises((SearchFailed, TimeoutError)) as caught:
            await ask(planted(place, supervisor, body), place, query)
        tasks.cancel_scope.cancel()
    if isinstance(caught.value, TimeoutError):
        assert turns > 5
    else:
        assert "no output of a search" in str(caught.value)


@pytest.mark.needs("landlock")
@pytest.mark.parametrize("query", QUESTIONS[:2])
async def test_a_pattern_that_takes_for_ever_is_ended_while_the_worker_answers(
    place: SearchPlace, supervisor: Supervisor, query: Query
) -> None:
    # So many sets of states that none is met twice.
    text = "".join(random.Random(1).choices("xy", k=500_000))  # noqa: S311 - no secret
    (Path(place.absolute) / "f").write_text(text)
    pattern = "(?:x|y)*x(?:x|y){1000}[^xy]"
    with pytest.raises(TimeoutError):
        await ask(own(place, supervisor), place, msgspec.structs.replace(query, pattern=pattern))


@pytest.mark.needs("landlock")
async def test_a_cancelled_search_ends_ripgrep(
    place: SearchPlace, tmp_path: Path, supervisor: Supervisor
) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\necho $$ > pid\nsleep 60\n")
    (tmp_path / "rg").chmod(0o755)
    plan = Plan(mode=PermissionMode.STANDARD, writable_roots=(place.absolute,))
    way = ProgramSearch(Ripgrep(str(tmp_path / "rg")), supervisor, plan)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search, way, place, Query(pattern="x"), Page(0, 9), SearchLimits())
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert not os.path.exists(f"/proc/{int((tmp_path / 'pid').read_text())}")  # noqa: ASYNC240


def test_a_program_is_found_on_the_absolute_folders_of_path(tmp_path: Path) -> None:
    for folder, mode in (("one", 0o644), ("two", 0o755), ("three", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rg").touch(mode)
    (tmp_path / "zero" / "rg").mkdir(parents=True)
    folders = [str(tmp_path / name) for name in ("zero", "one", "two", "three")]
    search_path = os.pathsep.join(["", "relative", *folders])
    for _ in range(2):
        assert find_program("rg", search_path) == f"{folders[2]}/rg"
    (tmp_path / "two" / "rg").unlink()
    assert find_program("rg", search_path) == f"{folders[3]}/rg"
    assert find_program("rg", "") is None


def test_a_program_that_is_installed_meanwhile_is_found(tmp_path: Path) -> None:
    assert find_program("rg", str(tmp_path)) is None
    (tmp_path / "rg").touch(0o755)
    assert find_program("rg", str(tmp_path)) == f"{tmp_path}/rg"


def test_without_ripgrep_the_own_engine_searches() -> None:
    nothing = None
    way = way_to_search(None, nothing, nothing)
    assert isinstance(way, ProgramSearch)
    assert isinstance(way._engine, OwnEngine)
