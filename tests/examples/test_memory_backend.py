"""The example that keeps its files in memory, behind a real host."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import moorage
from moorage.errors import ProtocolMismatch, Refused, ToolFailed, UnknownTool, WorkerFailure

Open = Callable[..., AbstractAsyncContextManager[moorage.Session]]


@pytest.fixture
def open_memory(open_example: Any, example: Callable[[str], str]) -> Open:
    program = example("memory_backend/backend.py")
    return lambda **options: open_example(sys.executable, program, **options)


def is_there(path: Path) -> bool:
    return path.exists()


async def test_files_are_written_read_edited_listed_and_searched_and_the_disk_stays_empty(
    open_memory: Open, workspace: Path
) -> None:
    async with open_memory() as session:
        assert await session.capabilities() == frozenset()
        created = await session.write_file("src/a.py", "one = 1\ntwo = 2\n")
        assert (created.action, created.path) == ("create", "src/a.py")
        read = await session.read_file("src/a.py", offset=2, limit=1)
        assert (read.text, read.start_line, read.total_lines) == ("two = 2\n", 2, 2)
        edited = await session.edit_file("src/a.py", "two = 2", "two = 3")
        assert edited.old_sha256 == created.new_sha256 != edited.new_sha256
        await session.write_file(f"{workspace}/b.txt", "two\n")
        listing = (await session.list_files()).structured_content
        assert listing is not None
        assert [entry["name"] for entry in listing["entries"]] == ["b.txt", "src"]
        found = (await session.grep("two")).structured_content
        assert found is not None
        assert [record["path"] for record in found["records"]] == ["b.txt", "src/a.py"]
        globbed = (await session.glob("**/*.py")).structured_content
        assert globbed is not None
        assert globbed["paths"] == ["src/a.py"]
    assert not is_there(workspace)


async def test_the_files_are_gone_with_the_session(open_memory: Open) -> None:
    async with open_memory() as session:
        await session.write_file("a", "x")
        session_id = session.id
    async with open_memory(session_id=session_id) as session:
        with pytest.raises(ToolFailed, match="no file a"):
            await session.read_file("a")


@pytest.mark.parametrize("mode", ["standard", "read_only", "unconfined"])
async def test_commands_are_refused_in_every_mode_and_nothing_runs_here(
    open_memory: Open, mode: str, tmp_path: Path
) -> None:
    async with open_memory(mode=mode) as session:
        for call in (lambda: session.run(f"touch {tmp_path}/ran"), lambda: session.git("status")):
            with pytest.raises(Refused, match="has no commands"):
                await call()
    assert not is_there(tmp_path / "ran")


async def test_what_it_does_not_offer_is_an_error(open_memory: Open) -> None:
    async with open_memory() as session:
        with pytest.raises(ProtocolMismatch, match=r"process\.start\.v1|started"):
            await session.processes.start("true")
        with pytest.raises(ProtocolMismatch, match="bytes"):
            await session.read_bytes("a")
        with pytest.raises(ProtocolMismatch, match="process/list"):
            await session.processes.list()
        with pytest.raises(UnknownTool, match="present_artifact"):
            await session.present_artifact("a")


async def test_misfortunes_change_nothing(open_memory: Open) -> None:
    async with open_memory() as session:
        await session.write_file("a", "x x")
        for change in (
            session.write_file("a", "y", create_only=True),
            session.write_file("a/b", "y"),
            session.write_file("big", "x" * 600_000),
            session.edit_file("a", "x", "y"),
            session.edit_file("a", "z", "y"),
            session.edit_file("b", "z", "y"),
            session.list_files("a"),
            session.list_files("b"),
            session.read_file("a", offset=9),
        ):
            with pytest.raises(ToolFailed):
                await change
        assert (await session.read_file("a")).text == "x x"


async def test_its_own_check_refuses_writes_in_read_only_and_paths_that_lead_out(
    open_memory: Open,
) -> None:
    async with open_memory() as session:
        for path in ("../x", "/etc/passwd"):
            with pytest.raises(Refused, match="leads out"):
                await session.write_file(path, "x")


async def test_a_profile_that_wants_its_state_kept_is_refused(open_memory: Open) -> None:
    async with open_memory(persistent=True) as session:
        with pytest.raises((Refused, WorkerFailure), match="persistent"):
            await session.list_files()
