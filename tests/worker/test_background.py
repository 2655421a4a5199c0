from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from moorage.connection.host_end import HostConnection
from moorage.errors import ExecutionError, InvalidArguments, Refused
from moorage.protocol.binding import PROCESS_START, Binding
from moorage.protocol.processes import (
    CleanupReply,
    CompletionDeliveredRequest,
    CompletionModeRequest,
    OutputSnapshot,
    ProcessEvent,
    ProcessRecord,
    ProcessRequest,
    ReadOptions,
    ReadRequest,
    ResizeRequest,
    StartRequest,
    WriteRequest,
)
from moorage.protocol.secret import Secret
from moorage.worker.options import WorkerOptions
from moorage.worker.outlet import MOST_UNSENT_EVENTS, EventOutlet

Connect = Callable[[WorkerOptions], AbstractAsyncContextManager[HostConnection]]
SECRET = "a-very-secret-value"  # noqa: S105 - the binding forwards it


class Wire:
    """The process methods, as a host calls them."""

    def __init__(self, connection: HostConnection) -> None:
        self.connection = connection

    async def ask(self, method: str, data: Any, reply: Any) -> Any:
        with anyio.fail_after(10):
            return await self.connection.request(f"process/{method}", data, reply)

    async def start(self, command: str, **changes: Any) -> ProcessRecord:
        fields = {"operation_id": "op-1", "actor": "s-1", **changes}
        request = StartRequest(command=command, **fields)
        return await self.ask("start", request, ProcessRecord)

    async def read(self, process_id: str, offset: int | None, seconds: float) -> OutputSnapshot:
        options = ReadOptions(offset_bytes=offset, wait_ns=int(seconds * 1e9))
        return await self.ask("read", ReadRequest(id=process_id, options=options), OutputSnapshot)

    async def end_of(self, process_id: str) -> OutputSnapshot:
        at = 0
        while True:
            window = await self.read(process_id, at, 5)
            if window.process.is_terminal:
                return await self.read(process_id, None, 0)
            at = window.total_bytes

    async def listed(self) -> tuple[ProcessRecord, ...]:
        return await self.ask("list", None, tuple[ProcessRecord, ...])


@pytest.fixture
async def wire(connect: Connect, options: WorkerOptions, binding: Binding) -> AsyncIterator[Wire]:
    async with connect(options) as connection:
        reply = await connection.initialize(binding)
        assert PROCESS_START in reply.capabilities
        yield Wire(connection)


async def test_a_start_answers_with_the_operation_and_the_list_shows_it(wire: Wire) -> None:
    record = await wire.start("sleep 60", operation_id="op-7", tty=True)

    assert (record.operation_id, record.root_thread_id, record.owner_kind) == (
        "op-7",
        "s-1",
        "main_agent",
    )
    assert record.tty
    assert [each.operation_id for each in await wire.listed()] == ["op-7"]
    assert await wire.ask("get", ProcessRequest(id=record.id), ProcessRecord) == record


async def test_another_actor_is_a_subagent(wire: Wire) -> None:
    record = await wire.start("true", actor="helper")

    assert (record.owner_kind, record.owner_id) == ("subagent", "helper")


async def test_input_output_size_and_end_travel(wire: Wire) -> None:
    record = await wire.start("cat", tty=True)
    named = ProcessRequest(id=record.id)

    assert await wire.ask("input_available", named, bool)
    await wire.ask("write", WriteRequest(id=record.id, input="h\u00e9\n"), ProcessRecord)
    assert (await wire.read(record.id, 0, 5)).output.startswith("h\u00e9\r\n")
    await wire.ask("resize", ResizeRequest(id=record.id, cols=132, rows=50), ProcessRecord)
    changed = CompletionModeRequest(id=record.id, mode="detached")
    assert (await wire.ask("completion_mode", changed, ProcessRecord)).completion_mode == "detached"
    stopped = await wire.ask("stop", named, ProcessRecord)
    assert (stopped.status, stopped.terminal_cause) == ("stopped", "requested_stop")
    assert not await wire.ask("input_available", named, bool)
    assert await wire.ask("stop", named, ProcessRecord) == stopped


async def test_a_completion_is_pending_until_it_is_delivered(wire: Wire) -> None:
    record = await wire.start("exit 2")
    named = ProcessRequest(id=record.id)
    assert (await wire.end_of(record.id)).process.exit_code == 2

    assert await wire.ask("completion_pending", named, bool)
    taken = CompletionDeliveredRequest(id=record.id, consumer="main")
    await wire.ask("completion_delivered", taken, ProcessRecord)
    assert not await wire.ask("completion_pending", named, bool)


async def test_what_is_returned_is_masked_and_what_is_forwarded_reaches_the_command(
    wire: Wire, options: WorkerOptions
) -> None:
    record = await wire.start(f"echo $GIVEN_TOKEN $MORE {SECRET}", environment={"MORE": "more"})
    window = await wire.end_of(record.id)

    assert window.output == "[REDACTED] more [REDACTED]\n"
    assert SECRET not in repr(window)
    log = options.state / "env-1/s-1/logs" / f"{record.id}.log"
    assert record.log_path == str(log)
    assert SECRET in log.read_text()
    stored = json.loads((options.state / "env-1/s-1/processes" / f"{record.id}.json").read_text())
    assert SECRET in stored["command"]


async def test_a_denial_is_told_in_the_record(wire: Wire) -> None:
    record = await wire.start("echo x >/etc/moorage-was-here")
    ended = (await wire.end_of(record.id)).process

    assert ended.sandbox_mode == "workspace-write"
    assert ended.sandbox_denied
    assert ended.sandbox_denial_signatures == ("permission denied",)


async def test_cleanup_tells_what_it_ended(wire: Wire) -> None:
    assert (await wire.ask("cleanup", None, CleanupReply)).cleaned is None
    record = await wire.start("sleep 60")

    cleaned = (await wire.ask("cleanup", None, CleanupReply)).cleaned
    assert [each.id for each in cleaned] == [record.id]


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"command": "  "}, InvalidArguments, "blank"),
        ({"cwd": "no-such"}, InvalidArguments, "no-such"),
        ({"cwd": "/etc"}, Refused, "/etc"),
        ({"permission_mode": "unconfined"}, Refused, "unconfined"),
        ({"permission_mode": "other"}, InvalidArguments, "permission_mode"),
        ({"permission_mode": "read_only", "command": "touch a"}, Refused, "read_only"),
    ],
)
async def test_a_start_that_must_not_be_leaves_nothing(
    wire: Wire, changes: dict[str, str], error: type[ExecutionError], text: str
) -> None:
    with pytest.raises(error, match=text):
        await wire.start(**{"command": "true", **changes})
    assert await wire.listed() == ()


async def test_a_reading_command_may_run_in_read_only(wire: Wire) -> None:
    record = await wire.start("ls", permission_mode="read_only")

    assert record.sandbox_mode == "read-only"


async def test_an_unknown_process_is_one_sentence(wire: Wire) -> None:
    with pytest.raises(InvalidArguments, match="No background process of this session"):
        await wire.ask("stop", ProcessRequest(id="proc-00000000"), ProcessRecord)


async def test_a_process_and_its_operation_are_listed_by_the_next_worker(
    connect: Connect, options: WorkerOptions, binding: Binding
) -> None:
    async with connect(options) as connection:
        await connection.initialize(binding)
        record = await Wire(connection).start("sleep 60")
    async with connect(options) as connection:
        await connection.initialize(binding)
        (found,) = await Wire(connection).listed()
    assert (found.id, found.operation_id) == (record.id, "op-1")
    assert (found.status, found.terminal_cause) == ("stopped", "requested_stop")


async def test_the_end_of_a_process_is_told_on_the_connection(
    serving: Any, options: WorkerOptions, binding: Binding
) -> None:
    told: list[ProcessEvent] = []
    is_over = anyio.Event()

    def note(event: ProcessEvent, is_gap: bool) -> None:
        assert not is_gap
        told.append(event)
        if len(told) == 2:
            is_over.set()

    async with (
        serving(options) as transport,
        HostConnection(transport, Secret("t" * 64), on_process_event=note) as connection,
    ):
        await connection.initialize(binding)
        record = await Wire(connection).start("exit 3")
        with anyio.fail_after(5):
            await is_over.wait()
    assert [(each.type, each.cause, each.process.id) for each in told] == [
        ("started", "", record.id),
        ("failed", "natural_exit", record.id),
    ]


class Silent:
    """A connection that takes events and keeps them."""

    def __init__(self) -> None:
        self.taken: list[object] = []

    async def emit_process(self, event: object) -> None:
        self.taken.append(event)


async def test_events_beyond_the_bound_are_dropped() -> None:
    outlet, silent = EventOutlet(), Silent()
    for number in range(MOST_UNSENT_EVENTS + 1):
        outlet.put(number)  # type: ignore[arg-type]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outlet.publish, silent)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert silent.taken == list(range(MOST_UNSENT_EVENTS))
