"""Forks, sub-agents and conversations beside a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host.conftest import Opener

import moorage
from moorage.errors import InvalidArguments, Refused

pytestmark = pytest.mark.needs("landlock")


async def test_a_fork_is_another_session_with_the_same_choice(open_here: Opener) -> None:
    async with open_here(mode="read_only", name="parent") as parent:
        async with parent.fork(name="child") as child:
            assert child.id != parent.id
            assert (child.environment, child.workspace) == (parent.environment, parent.workspace)
            assert child.mode is parent.mode
            assert child._environment.placement.identity != parent._environment.placement.identity
            kept = child.id
        async with open_here(session_id="child", mode=None) as again:
            assert again.id == kept


async def test_a_fork_sees_the_local_folder_and_not_the_processes(open_here: Opener) -> None:
    async with open_here() as parent:
        await parent.write_file("a.txt", "one\n")
        await parent.processes.start("sleep 1000")
        async with parent.fork() as child:
            assert (await child.read_file("a.txt")).text == "one\n"
            assert await child.processes.list() == ()
        assert len(await parent.processes.list()) == 1


async def test_a_sub_agent_acts_in_place_and_in_its_own_name(session, home: Path) -> None:
    helper = session.subagent("reviewer")
    await helper.write_file("a.txt", "one\n")
    assert (await session.read_file("a.txt")).text == "one\n"
    record = await helper.processes.start("sleep 1000")
    assert (record.owner_kind, record.owner_id) == ("subagent", "reviewer")
    assert [each.id for each in await session.processes.list()] == [record.id]
    lines = (home / "state" / "sessions" / session.id / "record.ndjson").read_text()
    assert '"actor":"reviewer"' in lines
    with pytest.raises(InvalidArguments):
        session.subagent("")


async def test_a_side_conversation_reads_in_the_same_place_and_changes_nothing(
    session: moorage.Session,
) -> None:
    await session.write_file("a.txt", "one\n")
    side = session.side()
    assert (await side.read_file("a.txt")).text == "one\n"
    assert (await side.run("cat a.txt")).stdout == "one\n"
    with pytest.raises(Refused):
        await side.write_file("b.txt", "two\n")
    with pytest.raises(Refused):
        await side.run("touch b.txt")
    assert session.mode is moorage.PermissionMode.STANDARD
    await session.write_file("b.txt", "two\n")


async def test_a_side_conversation_is_never_handed_over(session: moorage.Session) -> None:
    await session.write_file("a.txt", "one\n")
    result = await session.side().call(
        "bash", {"command": "tail -f a.txt", "timeout_seconds": 1, "hand_over": True}
    )
    assert result.structured_content["outcome"] == "timed_out"
    assert await session.processes.list() == ()
