"""The ends of background processes, told once: over the wire and a real worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest
from tests.host.conftest import Opener

import moorage
from moorage.backends.ending import running_pid
from moorage.errors import ConfigError, InvalidArguments
from moorage.host.completions import TAIL_BYTES, Completion
from moorage.host.results import ProcessChanged
from moorage.protocol.processes import ProcessRecord

pytestmark = pytest.mark.needs("landlock")


async def ended(session: moorage.Session, command: str, **options) -> ProcessRecord:
    """Run a background process to its end, and return its record."""
    record = await session.processes.start(command, tty=False, **options)
    async for window in session.processes.follow(record.id):
        record = window.process
    return record


async def next_of(session: moorage.Session) -> Completion:
    async for completion in session.completions():
        return completion
    raise AssertionError("the stream ended")


async def test_an_end_is_told_when_it_comes_with_what_was_printed(session) -> None:
    record = await session.processes.start("read line; printf 'a\\033[1mb'; exit 3", tty=False)
    async with anyio.create_task_group() as tasks:
        told: list[Completion] = []

        async def wait() -> None:
            told.append(await next_of(session))

        tasks.start_soon(wait)
        await session.processes.write(record.id, "\n")
    assert told[0].process.id == record.id
    assert told[0].text == (
        f"[Background process {record.id} has ended with exit code 3.]\n"
        "Command: read line; printf 'a\\033[1mb'; exit 3\n"
        "It ended with exit code 3.\nOutput:\nab"
    )
    assert told[0].id == f"moorage-process-completion:{record.id}"
    assert told[0].answer_id == f"moorage-process-completion-answer:{record.id}"


async def test_a_long_output_says_what_it_leaves_out_and_where_that_is(session) -> None:
    record = await ended(session, "head -c 10000 /dev/zero | tr '\\0' x; echo; echo the end")
    (completion,) = await session.completions().take()
    assert f"its last {TAIL_BYTES:,} of {record.total_bytes:,} bytes" in completion.text
    assert f"process_id={record.id}, offset_bytes=0" in completion.text
    assert completion.text.endswith("x\nthe end")


async def test_silence_is_said(session) -> None:
    await ended(session, "true")
    (completion,) = await session.completions().take()
    assert completion.text.endswith("It printed nothing.")


async def test_what_a_turn_deals_with_is_not_told_again_and_what_is_acknowledged_never(
    open_here: Opener,
) -> None:
    async with open_here(name="told-once") as session:
        first = await ended(session, "echo 1")
        second = await ended(session, "echo 2")
        completions = session.completions()
        taken = await completions.take()
        assert [each.process.id for each in taken] == [first.id, second.id]
        assert await completions.take() == []
        await completions.acknowledge(taken[0])
    async with open_here(session_id="told-once") as session:
        # The other turn was lost with its host, so its end is told again.
        (again,) = await session.completions().take()
        assert again.process.id == second.id
        record = await session.processes.get(first.id)
        assert record.completion_consumed_by == "agent"


async def test_a_turn_that_failed_waits_for_the_user_also_across_a_restart(
    open_here: Opener,
) -> None:
    async with open_here(name="paused") as session:
        failed = await ended(session, "echo 1")
        session.completions().pause(*await session.completions().take())
        other = await ended(session, "echo 2")
        assert [each.process.id for each in await session.completions().take()] == [other.id]
    async with open_here(session_id="paused") as session:
        completions = session.completions()
        assert completions.paused == {failed.id}
        assert [each.process.id for each in await completions.take()] == [other.id]
        assert [each.process.id async for each in completions.remaining()] == []
        completions.resume()
        assert [each.process.id for each in await completions.take()] == [failed.id]


async def test_neither_detached_nor_stopped_nor_read_ends_are_told(session) -> None:
    await ended(session, "echo 1", completion_mode="detached")
    stopped = await session.processes.start("sleep 1000")
    await session.processes.stop(stopped.id)
    read = await ended(session, "echo 3")
    await session.call("bash", {"action": "read", "process_id": read.id})
    assert await session.completions().take() == []


async def test_changing_the_mode_of_a_running_process_changes_whether_its_end_is_told(
    session,
) -> None:
    quiet = await session.processes.start("read line", tty=False)
    loud = await session.processes.start("read line", tty=False, completion_mode="detached")
    await session.processes.update(quiet.id, completion_mode="detached")
    await session.processes.update(loud.id, completion_mode="resume")
    for record in (quiet, loud):
        await session.processes.write(record.id, "\n")
    assert [each.process.id async for each in session.completions().remaining()] == [loud.id]


async def test_what_remains_is_waited_for_and_detached_processes_are_not(session) -> None:
    await session.processes.start("sleep 1000", completion_mode="detached")
    record = await session.processes.start("read line", tty=False)
    told = []
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            told.extend([each.process.id async for each in session.completions().remaining()])

        tasks.start_soon(wait)
        await session.processes.write(record.id, "\n")
    assert told == [record.id]


async def test_the_stream_ends_with_its_session(open_here: Opener) -> None:
    async with anyio.create_task_group() as tasks:
        over = anyio.Event()
        async with open_here() as session:

            async def listen() -> None:
                async for _ in session.completions():
                    raise AssertionError("nothing was started")
                over.set()

            tasks.start_soon(listen)
            await session.run("true")
        await over.wait()


async def test_what_is_lost_with_its_worker_is_told_by_the_next_one(open_here: Opener) -> None:
    async with open_here(name="lost-worker") as session:
        record = await session.processes.start("sleep 1000", tty=False)
        worker = running_pid(session._environment.placement.stays_in)
        assert worker is not None
        async with anyio.create_task_group() as tasks:
            told: list[Completion] = []

            async def wait() -> None:
                told.append(await next_of(session))

            tasks.start_soon(wait)
            os.kill(worker, signal.SIGKILL)
        assert told[0].process.id == record.id
        assert "its exit code is not known" in told[0].text


async def test_what_is_acknowledged_without_a_worker_is_kept_and_said_later(
    open_here: Opener,
) -> None:
    async with open_here(name="offline") as session:
        record = await ended(session, "echo 1")
        (completion,) = await session.completions().take()
    async with open_here(session_id="offline") as session:
        environment = session._environment

        async def fail() -> None:
            raise moorage.ConnectionLost("no worker")

        connection, environment.connection = environment.connection, fail
        await session.completions().acknowledge(completion.answer_id)
        environment.connection = connection
        assert not (await session.processes.get(record.id)).completion_consumed_by
        assert await session.completions().take() == []
        assert (await session.processes.get(record.id)).completion_consumed_by == "agent"


async def test_a_mark_of_a_process_that_nobody_knows_harms_nothing(session) -> None:
    await session.run("true")
    await session.completions().acknowledge("moorage-process-completion-answer:proc-00000000")
    with pytest.raises(InvalidArguments, match="No background process"):
        await session.processes.get("proc-00000000")


async def test_a_damaged_file_is_named(session, home: Path) -> None:
    (home / "state" / "sessions" / session.id / "completions.json").write_text("{")
    with pytest.raises(ConfigError, match=r"completions\.json cannot be read"):
        session.completions().resume()


async def test_the_sessions_events_tell_of_processes(session) -> None:
    async with session.events() as events:
        record = await ended(session, "exit 3")
        seen = [await events.receive(), await events.receive()]
    assert all(isinstance(event, ProcessChanged) for event in seen)
    assert [(event.type, event.process.id) for event in seen] == [
        ("started", record.id),
        ("failed", record.id),
    ]
    assert [event.sequence for event in seen] == [1, 2]
