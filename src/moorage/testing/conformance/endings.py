"""How ends are told: events, completions, and commands of a model in the background."""

from __future__ import annotations

from typing import Any

from moorage.errors import InvalidArguments
from moorage.host.results import ProcessChanged
from moorage.testing.conformance.place import Place
from moorage.testing.conformance.processes import output_of
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import data_of, fails, holds, same


async def _end_of(events: Any, process_id: str) -> ProcessChanged:
    """Return the event of the end of a process."""
    async for event in events:
        is_its = isinstance(event, ProcessChanged) and event.process.id == process_id
        if is_its and event.process.is_terminal:
            found: ProcessChanged = event
            return found
    raise AssertionError("the events ended, and the end of the process was not among them")


@check("events", "processes")
async def an_end_is_an_event(place: Place) -> None:
    """The end of a process is told without being asked for, with its cause and record."""
    async with place.session() as session, session.events() as events:
        record = await session.processes.start("exit 3", tty=False)
        event = await _end_of(events, record.id)
        same((event.cause, event.process.exit_code), ("natural_exit", 3), "the event")


@check("events", "processes")
async def a_stop_is_another_event(place: Place) -> None:
    """The end of a process that was stopped has another cause."""
    async with place.session() as session, session.events() as events:
        record = await session.processes.start("sleep 600", tty=False)
        await session.processes.stop(record.id)
        event = await _end_of(events, record.id)
        same(event.cause, "requested_stop", "the cause")


@check("events", "processes")
async def a_completion_is_told_once(place: Place) -> None:
    """The end of a process is owed to its agent once, and no more when it was answered."""
    async with place.session() as session:
        record = await session.processes.start("echo last words; exit 3", tty=False)
        await output_of(session, record.id)
        (told,) = await session.completions().take()
        same(told.process.id, record.id, "the completion")
        holds("last words" in told.text, f"the completion does not tell the output: {told.text}")
        await session.completions().acknowledge(told)
        same(await session.completions().take(), [], "what is owed after the answer")
        kept = await session.processes.get(record.id)
        holds(kept.completion_consumed_by, "the record does not say who was told")


@check("events", "processes")
async def what_is_detached_is_not_told(place: Place) -> None:
    """Neither a process that was started detached nor one that was made so is owed."""
    async with place.session() as session:
        quiet = await session.processes.start("exit 0", tty=False, completion_mode="detached")
        made = await session.processes.start("read line", tty=False)
        changed = await session.processes.update(made.id, completion_mode="detached")
        same(changed.completion_mode, "detached", "the record")
        await session.processes.write(made.id, "\n")
        for each in (quiet, made):
            await output_of(session, each.id)
        same(await session.completions().take(), [], "what is owed")


@check("events", "processes")
async def what_was_stopped_is_not_told(place: Place) -> None:
    """Who stops a process knows of its end and is owed none."""
    async with place.session() as session:
        record = await session.processes.start("sleep 600", tty=False)
        await session.processes.stop(record.id)
        same(await session.completions().take(), [], "what is owed")


@check("events", "processes")
async def the_mode_of_what_has_ended_is_settled(place: Place) -> None:
    """Choosing whether an end is told comes too late after it."""
    async with place.session() as session:
        record = await session.processes.start("exit 0", tty=False)
        await output_of(session, record.id)
        with fails(InvalidArguments, what="choosing after the end"):
            await session.processes.update(record.id, completion_mode="detached")


@check("events", "processes", "background")
async def a_model_works_in_the_background(place: Place) -> None:
    """The tool ``bash`` starts, reads, lists and stops what runs in the background."""
    async with place.session() as session:
        words = {"command": "echo up; sleep 600", "run_in_background": True}
        started = data_of(await session.call("bash", words))
        process_id = started["process_id"]
        asked = {"action": "read", "process_id": process_id, "offset_bytes": 0, "wait_ms": 30_000}
        read = await session.call("bash", asked)
        holds("up" in read.text, f"the output is not read: {read.text}")
        listed = await session.call("bash", {"action": "list"})
        holds(process_id in listed.text, f"the list does not have it: {listed.text}")
        await session.call("bash", {"action": "stop", "process_id": process_id})
        same((await session.processes.get(process_id)).is_terminal, True, "the end")
