"""The background processes of a session, over the wire and a real worker."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.host.conftest import Opener

import moorage
from moorage.connection.host_end import HostConnection
from moorage.errors import InvalidArguments, OutcomeUnknown, ProtocolMismatch

pytestmark = pytest.mark.needs("landlock")


async def output_of(session: moorage.Session, process_id: str) -> tuple[str, int]:
    """Return everything that a process printed, and its exit code."""
    text = ""
    async for snapshot in session.processes.follow(process_id):
        text += snapshot.output
        code = snapshot.process.exit_code
    return text, code


async def test_without_a_worker_there_is_nothing_to_list(session) -> None:
    assert await session.processes.list() == ()
    assert not session._environment.is_provisioned


@pytest.mark.parametrize(("tty", "newline"), [(True, "\r\n"), (False, "\n")])
async def test_a_process_is_followed_from_its_first_byte_to_its_end(
    session, tty: bool, newline: str
) -> None:
    command = "test -t 1 && echo terminal || echo pipe; read line; echo got $line; exit 3"
    record = await session.processes.start(command, tty=tty)
    assert (record.status, record.tty) == ("running", tty)
    assert record.root_thread_id == session.id
    await session.processes.write(record.id, "höla\n")
    text, code = await output_of(session, record.id)
    assert code == 3
    kind = "terminal" if tty else "pipe"
    echo = f"höla{newline}" if tty else ""
    assert sorted(text.split(newline)) == sorted(
        f"{kind}{newline}{echo}got höla{newline}".split(newline)
    )


async def test_variables_and_folder_of_a_start_hold(session, workspace: Path) -> None:
    (workspace / "below").mkdir()
    record = await session.processes.start(
        "echo $NUMBER in $PWD", cwd="below", tty=False, variables={"NUMBER": "seven"}
    )
    text, _ = await output_of(session, record.id)
    assert text == f"seven in {session.workspace}/below\n"


async def test_a_stop_ends_it_and_a_second_one_changes_nothing(session) -> None:
    record = await session.processes.start("trap '' TERM; sleep 1000 & sleep 1000")
    ended = await session.processes.stop(record.id)
    assert (ended.status, ended.terminal_cause) == ("stopped", "requested_stop")
    assert await session.processes.stop(record.id) == ended
    assert await session.processes.get(record.id) == ended


async def test_a_terminal_is_resized_and_pipes_are_not(session) -> None:
    record = await session.processes.start("read line; stty size")
    await session.processes.resize(record.id, columns=100, rows=30)
    await session.processes.write(record.id, "\n")
    text, _ = await output_of(session, record.id)
    assert "30 100" in text
    piped = await session.processes.start("sleep 1000", tty=False)
    with pytest.raises(InvalidArguments, match="terminal"):
        await session.processes.resize(piped.id, columns=100, rows=30)


async def test_an_end_is_acknowledged_once(session) -> None:
    record = await session.processes.start("true", completion_mode="detached")
    changed = await session.processes.start("read line")
    updated = await session.processes.update(changed.id, completion_mode="detached")
    assert updated.completion_mode == "detached"
    await output_of(session, record.id)
    first = await session.processes.acknowledge(record.id, consumer="turn-1")
    again = await session.processes.acknowledge(record.id, consumer="turn-2")
    assert (first.completion_consumed_by, again.completion_consumed_by) == ("turn-1", "turn-1")


async def test_a_clean_up_ends_all_but_managed_ones(session) -> None:
    plain = await session.processes.start("sleep 1000")
    managed = await session.processes.start("sleep 1000", lifecycle="managed")
    assert [record.id for record in await session.processes.clean_up()] == [plain.id]
    assert (await session.processes.get(managed.id)).status == "running"
    assert [each.id for each in await session.processes.list()] == [plain.id, managed.id]


async def test_processes_outlive_their_host_only_in_a_worker_that_stays(
    open_here: Opener,
) -> None:
    async with open_here() as passing, open_here(name="staying") as staying:
        assert not passing.processes.outlive_host
        assert staying.processes.outlive_host


async def test_processes_of_another_session_are_unknown(open_here: Opener) -> None:
    with anyio.fail_after(50):
        async with open_here() as one, open_here() as other:
            record = await one.processes.start("sleep 1000")
            await other.run("true")
            assert await other.processes.list() == ()
            for ask in (other.processes.get, other.processes.stop, other.processes.read):
                with pytest.raises(InvalidArguments, match="No background process of this session"):
                    await ask(record.id)
            assert (await one.processes.get(record.id)).status == "running"


@pytest.mark.parametrize("command", ["", "  \n"])
async def test_a_blank_command_starts_nothing(session, command: str) -> None:
    with pytest.raises(InvalidArguments, match="blank"):
        await session.processes.start(command)
    assert not session._environment.is_provisioned


async def test_a_worker_that_promises_no_lasting_starts_is_asked_for_none(
    session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.run("true")
    monkeypatch.setattr(HostConnection, "capabilities", frozenset())
    with pytest.raises(ProtocolMismatch, match="cannot start background processes"):
        await session.processes.start("touch made")
    monkeypatch.undo()
    assert await session.processes.list() == ()


async def test_a_start_whose_answer_was_lost_is_found_by_its_operation(
    session, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent again: what the worker keeps tells whether it happened."""
    await session.run("true")
    asked: list[str] = []
    request = HostConnection.request

    async def lose(self: HostConnection, method: str, *rest: object, **options: object) -> object:
        asked.append(method)
        answer = await request(self, method, *rest, **options)  # type: ignore[arg-type]
        if method == "process/start":
            raise OutcomeUnknown("the connection was lost while process/start was in flight.")
        return answer

    monkeypatch.setattr(HostConnection, "request", lose)
    with pytest.raises(OutcomeUnknown):
        await session.processes.start("sleep 1000", operation_id="an-operation")
    found = await session.processes.find("an-operation")
    assert found is not None
    assert found.command == "sleep 1000"
    assert await session.processes.find("another") is None
    assert asked.count("process/start") == 1


async def test_a_wait_for_output_ends_with_it_or_with_the_time(session) -> None:
    record = await session.processes.start("read line; echo done", tty=False)
    silent = await session.processes.read(record.id, offset=0, wait_seconds=0.05)
    assert (silent.output, silent.timed_out) == ("", True)
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            await session.processes.write(record.id, "\n")

        tasks.start_soon(answer)
        heard = await session.processes.read(record.id, offset=0, wait_seconds=30)
    assert (heard.output, heard.timed_out) == ("done\n", False)
    assert heard.end_offset == 5
