"""Lifetime: lost connections, sessions that are opened again, and what is kept or shared."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from moorage.errors import (
    ConfigError,
    ConnectionLost,
    EnvironmentDied,
    ExecutionError,
    NotFound,
    OutcomeUnknown,
)
from moorage.host.session import Session
from moorage.testing.conformance.place import Place, appears, names_in
from moorage.testing.conformance.processes import output_of
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import fails, holds, nothing_there, same

KEPT = {"persistent": True}
SHARED = {"shared": True}


@check("reconnect")
async def the_next_call_connects_again(place: Place) -> None:
    """When the way to the worker was killed, a later call finds or makes another one."""
    async with place.session() as session:
        await session.list_files()
        await place.sever(session)
        with anyio.fail_after(60):
            while True:
                try:
                    await session.list_files()
                    break
                except (ConnectionLost, OutcomeUnknown):
                    await anyio.lowlevel.checkpoint()


async def _lose(place: Place, session: Session) -> list[ExecutionError]:
    """Kill the way to the worker during a command that has begun; return what its call raised."""
    lost: list[ExecutionError] = []

    async def call() -> None:
        try:
            await session.run("echo once >> log; until test -e go; do sleep 0.02; done")
        except (OutcomeUnknown, EnvironmentDied) as error:
            lost.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await appears(session, "log")
        await place.sever(session)
    return lost


@check("reconnect", "commands", "retention")
async def a_lost_call_is_unknown_and_never_repeated(place: Place) -> None:
    """A call that was under way is told as unknown, and its effect is there once."""
    async with place.session() as session:
        lost = await _lose(place, session)
        same(len(lost), 1, "the number of calls that were told as unknown")
        ran = await session.run("echo x > go; sleep 0.4; cat log")
        same(ran.stdout, "once\n", "the traces of the call")


@check("reconnect", "retention")
async def files_are_there_after_a_loss(place: Place) -> None:
    """What was written before the connection was lost is there after it."""
    async with place.session() as session:
        await session.write_file("a.txt", "one\n")
        await place.sever(session)
        with anyio.fail_after(60):
            while True:
                try:
                    read = await session.read_file("a.txt")
                    break
                except (ConnectionLost, OutcomeUnknown):
                    await anyio.lowlevel.checkpoint()
        same(read.text, "one\n", "the text")


@check("retention", "retention")
async def a_kept_session_has_its_files(place: Place) -> None:
    """A session of a profile that keeps its state is opened again by id, with its files."""
    async with place.session(KEPT) as session:
        await session.write_file("folder/a.txt", "kept\n")
        session_id = session.id
    async with place.session(KEPT, session_id=session_id) as session:
        same(session.id, session_id, "the id")
        same((await session.read_file("folder/a.txt")).text, "kept\n", "the text")


@check("retention", "retention")
async def a_kept_session_is_found_by_name(place: Place) -> None:
    """A name opens the same session as its id, with its mode and its environment."""
    async with place.session(KEPT, name="kept", mode="read_only") as session:
        await session.list_files()
        session_id, environment = session.id, session.environment
    async with place.session(KEPT, session_id="kept") as session:
        told = (session.id, session.environment, session.mode.value)
        same(told, (session_id, environment, "read_only"), "the session")


@check("retention", "retention", "processes")
async def records_are_kept(place: Place) -> None:
    """How a process ended is known when the session is opened again."""
    async with place.session(KEPT, name="kept") as session:
        record = await session.processes.start("echo words; exit 3", tty=False)
        await output_of(session, record.id)
    async with place.session(KEPT, session_id="kept") as session:
        again = await session.processes.get(record.id)
        told = (again.exit_code, again.terminal_cause, again.is_terminal)
        same(told, (3, "natural_exit", True), "the record")
        same((await session.processes.read(record.id)).output, "words\n", "the output")


@check("retention", "retention", "processes", "commands")
async def a_session_without_a_name_leaves_nothing_running(place: Place) -> None:
    """What such a session started has ended when it is closed, though its files are kept."""
    async with place.session(KEPT) as session:
        beating = "while :; do echo x >> beat; sleep 0.02; done"
        await session.processes.start(beating, tty=False)
        await appears(session, "beat")
        session_id = session.id
    async with place.session(KEPT, session_id=session_id) as session:
        count = "wc -c < beat"
        ran = await session.run(
            f"a=$({count}); sleep 0.4; b=$({count}); test $a -gt 0 -a $a -eq $b"
        )
        same(ran.exit_code, 0, "whether the file is still")


@check("retention")
async def an_unknown_session_is_an_error(place: Place) -> None:
    """An id or name that nobody has opens nothing in its place."""
    with fails(NotFound, what="a session that never was"):
        async with place.session(session_id="s-nobody") as session:
            await session.list_files()


@check("retention")
async def a_closed_session_answers_no_more(place: Place) -> None:
    """After its end a session takes no call, and says why."""
    async with place.session() as session:
        await session.list_files()
    with fails(ConnectionLost, what="a call after the end"):
        await session.list_files()


@check("retention")
async def a_saved_mode_is_not_widened_by_opening(place: Place) -> None:
    """Opening a session again with another mode is an error, and not a wider session."""
    async with place.session(mode="read_only", name="narrow") as session:
        await session.list_files()
    with fails(ConfigError, what="another mode"):
        async with place.session(session_id="narrow", mode="unconfined") as session:
            await session.list_files()


@check("sharing", "sharing")
async def shared_sessions_see_the_same_files(place: Place) -> None:
    """Two sessions of a shared profile work on the same files at the same time."""
    async with place.session(SHARED) as one, place.session(SHARED) as other:
        await one.write_file("a.txt", "one\n")
        same((await other.read_file("a.txt")).text, "one\n", "what the other reads")
        await other.write_file("a.txt", "two\n")
        same((await one.read_file("a.txt")).text, "two\n", "what the first reads")


@check("sharing", "sharing", "processes")
async def shared_sessions_have_their_own_processes(place: Place) -> None:
    """A process of one session is in no list of the other, and its id is a stranger's there."""
    async with place.session(SHARED) as one, place.session(SHARED) as other:
        await other.list_files()
        record = await one.processes.start("sleep 600", tty=False)
        same(await other.processes.list(), (), "the other's list")
        with fails(ExecutionError, what="stopping another session's process"):
            await other.processes.stop(record.id)
        same((await one.processes.get(record.id)).status, "running", "the process")


@check("sharing")
async def sessions_do_not_mix_their_answers(place: Place) -> None:
    """Two sessions at once are two: other ids, and each is closed alone."""
    async with place.session() as one:
        async with place.session() as other:
            holds(one.id != other.id, "two sessions have one id")
            await other.list_files()
        await one.write_file("a.txt", "x")
        same(await names_in(one), ["a.txt"], "the first session after the end of the other")


@check("sharing", "separation")
async def sessions_that_share_nothing_are_apart(place: Place) -> None:
    """A file of one session is not there for another one, unless the profile shares."""
    async with place.session() as one, place.session() as other:
        await one.write_file("a.txt", "x")
        await nothing_there(other, "a.txt")


@check("sharing")
async def a_fork_is_a_session_of_its_own(place: Place) -> None:
    """A forked session has another id, the same environment, and works."""
    async with place.session() as session:
        async with session.fork() as fork:
            same(fork.environment, session.environment, "the environment")
            holds(fork.id != session.id, "the fork has the id of its parent")
            await fork.write_file("forked.txt", "x")
            holds("forked.txt" in await names_in(fork), "the fork's file is not there")
        await session.list_files()


@check("sharing")
async def a_sub_agent_works_in_place(place: Place) -> None:
    """A sub-agent sees and changes the same files as its session."""
    async with place.session() as session:
        helper = session.subagent("scout")
        await helper.write_file("a.txt", "by the scout\n")
        same((await session.read_file("a.txt")).text, "by the scout\n", "what the session reads")
