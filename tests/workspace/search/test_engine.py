"""A search as a whole: files that change meanwhile, programs that die, and who searches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest

from moorage.confine.plan import Plan
from moorage.errors import WorkerFailure
from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor
from moorage.workspace.search.engine import (
    Page,
    find_files,
    find_program,
    search,
    way_to_search,
)
from moorage.workspace.search.hits import Collector, Line, SearchLimits, Sheet
from moorage.workspace.search.own import OwnSearch
from moorage.workspace.search.selection import Query, SearchPlace
from moorage.workspace.search.with_ripgrep import RipgrepSearch


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


async def test_a_file_that_goes_away_before_it_is_read_gives_no_record(
    place: SearchPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x\n")
    (tmp_path / "b").write_text("x\n")
    way = OwnSearch()
    real_read = way.read

    async def read(*arguments) -> None:
        (tmp_path / "a").unlink(missing_ok=True)
        await real_read(*arguments)

    monkeypatch.setattr(way, "read", read)
    answer = await search(way, place, Query(pattern="x"), Page(0, 9), SearchLimits())
    assert [record.path for record in answer.records] == [b"b"]


@pytest.mark.needs("landlock")
@pytest.mark.parametrize("body", ["kill -9 $$", "sleep 60"])
async def test_a_program_that_dies_or_hangs_is_one_clear_error(
    place: SearchPlace, tmp_path: Path, supervisor: Supervisor, body: str
) -> None:
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    plan = Plan(mode=PermissionMode.STANDARD, writable_roots=(place.absolute,))
    way = RipgrepSearch(str(program), supervisor, plan)
    limits = SearchLimits(timeout_seconds=0.5)
    with pytest.raises((WorkerFailure, TimeoutError)) as caught:
        await search(way, place, Query(pattern="x"), Page(0, 9), limits)
    assert isinstance(caught.value, TimeoutError) == (body == "sleep 60")


@pytest.mark.needs("landlock")
async def test_a_cancelled_search_ends_ripgrep(
    place: SearchPlace, tmp_path: Path, supervisor: Supervisor
) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\necho $$ > pid\nsleep 60\n")
    (tmp_path / "rg").chmod(0o755)
    plan = Plan(mode=PermissionMode.STANDARD, writable_roots=(place.absolute,))
    way = RipgrepSearch(str(tmp_path / "rg"), supervisor, plan)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search, way, place, Query(pattern="x"), Page(0, 9), SearchLimits())
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert not os.path.exists(f"/proc/{int((tmp_path / 'pid').read_text())}")  # noqa: ASYNC240


async def test_an_own_search_can_be_cancelled(place: SearchPlace, tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"d{number}").mkdir()
        (tmp_path / f"d{number}" / "f").write_text("x\n" * 1000)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await find_files(OwnSearch(), place, lambda _: True, Page(0, 9), SearchLimits())
    assert scope.cancelled_caught


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
    assert isinstance(way_to_search(None, nothing, nothing), OwnSearch)
