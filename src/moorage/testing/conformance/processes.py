"""Background processes: started, listed, read, written to and stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from moorage.errors import ExecutionError, InvalidArguments
from moorage.host.session import Session
from moorage.protocol.processes import ProcessRecord
from moorage.testing.conformance.place import Place, appears
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import fails, holds, nothing_there, same

STRANGER = "proc-00000000"


async def output_of(session: Session, process_id: str) -> tuple[str, ProcessRecord]:
    """Return everything that a process prints, and its record when it has ended."""
    windows = [window async for window in session.processes.follow(process_id)]
    return "".join(window.output for window in windows), windows[-1].process


@check("processes", "processes")
async def a_start_answers_at_once(place: Place) -> None:
    """A started process runs, has an id and the name that its start was given."""
    async with place.session() as session:
        record = await session.processes.start("sleep 600", tty=False, operation_id="mine")
        same((record.operation_id, record.status), ("mine", "running"), "the record")
        holds(record.id and record.pid > 0, "the record has no id or no pid")
        same((record.command, record.owner_kind), ("sleep 600", "main_agent"), "the record")


@check("processes", "processes")
async def a_list_has_all_of_them(place: Place) -> None:
    """The list has every process of the session, the oldest first, and ``get`` the same record."""
    async with place.session() as session:
        ids = [(await session.processes.start("exit 0", tty=False)).id for _ in range(3)]
        for each in ids:
            await output_of(session, each)
        records = await session.processes.list()
        same([record.id for record in records], ids, "the list")
        same(await session.processes.get(ids[1]), records[1], "the record")


@check("processes", "processes")
async def a_start_is_found_by_its_name(place: Place) -> None:
    """``operation_id`` finds the process of one start, and none for another name."""
    async with place.session() as session:
        record = await session.processes.start("exit 0", tty=False, operation_id="the-one")
        found = await session.processes.find("the-one")
        same(found.id if found else None, record.id, "the process that was found")
        same(await session.processes.find("another"), None, "a start that never was")


@check("processes", "processes")
async def an_unknown_id_is_an_error_everywhere(place: Place) -> None:
    """No operation takes the id of a process that is not the session's."""
    async with place.session() as session:
        processes = session.processes
        operations: dict[str, Callable[[], Awaitable[object]]] = {
            "get": lambda: processes.get(STRANGER),
            "read": lambda: processes.read(STRANGER),
            "write": lambda: processes.write(STRANGER, "x"),
            "stop": lambda: processes.stop(STRANGER),
            "update": lambda: processes.update(STRANGER, completion_mode="detached"),
        }
        await session.list_files()
        for name, operation in operations.items():
            with fails(InvalidArguments, what=f"{name} of a stranger"):
                await operation()


@check("processes", "processes")
async def the_exit_code_is_kept(place: Place) -> None:
    """A process that ends by itself tells its code, and that nobody stopped it."""
    async with place.session() as session:
        for code in (0, 3):
            record = await session.processes.start(f"exit {code}", tty=False)
            _, ended = await output_of(session, record.id)
            told = (ended.exit_code, ended.terminal_cause, ended.is_terminal)
            same(told, (code, "natural_exit", True), f"the record of exit {code}")


@check("processes", "processes")
async def both_streams_are_its_output(place: Place) -> None:
    """What a process prints, on either stream, is kept and counted."""
    async with place.session() as session:
        record = await session.processes.start("echo out; echo err >&2", tty=False)
        text, _ = await output_of(session, record.id)
        same(sorted(text.split()), ["err", "out"], "the output")
        same((await session.processes.read(record.id)).total_bytes, 8, "the count")


@check("processes", "processes")
async def offsets_chain_without_gap_or_overlap(place: Place) -> None:
    """Small windows of text with characters of many bytes join to the whole output."""
    async with place.session() as session:
        record = await session.processes.start(
            "i=0; while test $i -lt 200; do printf 'zäh-日本-🦀\\n'; i=$((i+1)); done", tty=False
        )
        await output_of(session, record.id)
        parts, offset = [], 0
        while True:
            window = await session.processes.read(record.id, offset=offset, max_bytes=101)
            same(window.start_offset, offset, "the start of a window")
            parts.append(window.output)
            offset = window.end_offset
            if not window.output:
                break
        same("".join(parts), "zäh-日本-🦀\n" * 200, "the windows together")


@check("processes", "processes")
async def without_an_offset_the_end_is_read(place: Place) -> None:
    """A read without an offset gives the newest bytes and says that there were others."""
    async with place.session() as session:
        record = await session.processes.start("printf 0123456789", tty=False)
        await output_of(session, record.id)
        window = await session.processes.read(record.id, max_bytes=4)
        same((window.output, window.start_offset, window.truncated), ("6789", 6, True), "the end")


@check("processes", "processes")
async def a_read_waits_for_what_comes(place: Place) -> None:
    """A read that waits returns when something is printed, and one that waits in vain says so."""
    async with place.session() as session:
        record = await session.processes.start("read line; echo got $line; sleep 600", tty=False)
        vain = await session.processes.read(record.id, offset=0, wait_seconds=0.1)
        same((vain.output, vain.timed_out), ("", True), "the wait in vain")
        windows = []

        async def wait() -> None:
            windows.append(await session.processes.read(record.id, offset=0, wait_seconds=60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await session.processes.write(record.id, "it\n")
        same((windows[0].output, windows[0].timed_out), ("got it\n", False), "the wait")


@check("processes", "processes")
async def what_is_written_is_read(place: Place) -> None:
    """Text that is written to a process reaches it in order; one that has ended takes none."""
    async with place.session() as session:
        record = await session.processes.start("read a; read b; echo $b $a", tty=False)
        await session.processes.write(record.id, "zäh\n")
        await session.processes.write(record.id, "weich\n")
        text, _ = await output_of(session, record.id)
        same(text, "weich zäh\n", "the output")
        with fails(InvalidArguments, what="writing to a process that has ended"):
            await session.processes.write(record.id, "x")


@check("processes", "processes")
async def variables_are_added(place: Place) -> None:
    """Variables of a start are those of the process."""
    async with place.session() as session:
        record = await session.processes.start(
            'echo "$MOORAGE_CHECK"', tty=False, variables={"MOORAGE_CHECK": "zäh x"}
        )
        same((await output_of(session, record.id))[0], "zäh x\n", "the variable")


@check("processes", "processes")
async def it_runs_in_the_folder_it_is_told(place: Place) -> None:
    """``cwd`` is a folder of the workspace, also for what runs in the background."""
    async with place.session() as session:
        await session.write_file("folder/a.txt", "x\n")
        record = await session.processes.start("cat a.txt", cwd="folder", tty=False)
        same((await output_of(session, record.id))[0], "x\n", "the output")


@check("processes", "processes")
async def a_start_that_cannot_be_runs_nothing(place: Place) -> None:
    """A blank command, and a folder that is not there, start nothing elsewhere."""
    async with place.session() as session:
        with fails(InvalidArguments, what="a blank command"):
            await session.processes.start("  ", tty=False)
        try:
            record = await session.processes.start("echo x > made", cwd="nowhere", tty=False)
        except ExecutionError:
            pass
        else:
            _, ended = await output_of(session, record.id)
            holds(ended.exit_code != 0, "a process in a missing folder ended well")
        await nothing_there(session, "made", "nowhere")


@check("processes", "terminals")
async def a_terminal_is_one(place: Place) -> None:
    """A process that is started in a terminal has one, and it can be resized."""
    async with place.session() as session:
        command = "test -t 0 && test -t 1 && echo yes; read line; stty size; exit 4"
        record = await session.processes.start(command, tty=True)
        same(record.tty, True, "the record")
        await session.processes.read(record.id, offset=0, wait_seconds=30)
        await session.processes.resize(record.id, columns=91, rows=37)
        await session.processes.write(record.id, "\n")
        text, ended = await output_of(session, record.id)
        holds("yes" in text and "37 91" in text, f"the terminal says {text!r}")
        same(ended.exit_code, 4, "the exit code")


@check("processes", "processes")
async def without_a_terminal_there_is_none(place: Place) -> None:
    """A process with pipes has no terminal, and none to resize."""
    async with place.session() as session:
        record = await session.processes.start("test -t 1 || echo none; sleep 600", tty=False)
        window = await session.processes.read(record.id, offset=0, wait_seconds=30)
        same((record.tty, window.output), (False, "none\n"), "the process")
        with fails(ExecutionError, what="resizing pipes"):
            await session.processes.resize(record.id, columns=91, rows=37)


async def _is_still(session: Session, path: str) -> bool:
    first = (await session.read_file(path)).total_lines
    await session.run("sleep 0.4")
    return (await session.read_file(path)).total_lines == first


_BEATING = "while :; do echo x >> beat; sleep 0.02; done"


@check("processes", "processes", "commands")
async def a_stop_ends_a_stubborn_tree(place: Place) -> None:
    """A stop ends a process and its child, which ignore the polite signal and ran before."""
    async with place.session() as session:
        await session.write_file("tree.sh", f"trap '' TERM HUP INT\n({_BEATING}) &\nwait\n")
        record = await session.processes.start("exec sh tree.sh", tty=False)
        await appears(session, "beat")
        holds(not await _is_still(session, "beat"), "the child does not run before the stop")
        stopped = await session.processes.stop(record.id)
        told = (stopped.is_terminal, stopped.terminal_cause)
        same(told, (True, "requested_stop"), "the record")
        holds(await _is_still(session, "beat"), "the child still writes after the stop")


@check("processes", "processes")
async def a_stop_is_the_same_twice(place: Place) -> None:
    """Stopping what was stopped changes nothing, and neither does stopping what has ended."""
    async with place.session() as session:
        record = await session.processes.start("sleep 600", tty=False)
        first = await session.processes.stop(record.id)
        same(await session.processes.stop(record.id), first, "the second stop")
        ended = await session.processes.start("exit 3", tty=False)
        await output_of(session, ended.id)
        told = await session.processes.stop(ended.id)
        same((told.exit_code, told.terminal_cause), (3, "natural_exit"), "what had ended")


@check("processes", "processes")
async def a_cleanup_spares_what_is_managed(place: Place) -> None:
    """Cleaning up ends what belongs to the session, and nothing that is ``managed``."""
    async with place.session() as session:
        mine = await session.processes.start("sleep 600", tty=False)
        managed = await session.processes.start("sleep 600", tty=False, lifecycle="managed")
        cleaned = await session.processes.clean_up()
        same([record.id for record in cleaned], [mine.id], "what was cleaned")
        same((await session.processes.get(managed.id)).status, "running", "the managed one")
        await session.processes.stop(managed.id)


@check("processes", "processes")
async def a_sub_agent_owns_what_it_starts(place: Place) -> None:
    """What is started in another name belongs to that name, in the same environment."""
    async with place.session() as session:
        helper = session.subagent("scout")
        record = await helper.processes.start("exit 0", tty=False)
        same((record.owner_kind, record.owner_id), ("subagent", "scout"), "the owner")


@check("processes")
async def a_list_of_nothing_makes_nothing(place: Place) -> None:
    """Asking an unused session for its processes answers at once, without an environment."""
    async with place.session() as session:
        same(await session.processes.list(), (), "the list")
