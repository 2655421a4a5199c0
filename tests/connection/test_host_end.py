"""The host's end: what was in flight is unknown, what was not sent is lost, nothing is replayed."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection, HostLimits
from moorage.connection.provider import RequestContext
from moorage.errors import (
    ConnectionLost,
    ExecutionError,
    InvalidArguments,
    LocalProtocolViolation,
    OutcomeUnknown,
    ProtocolMismatch,
    RemoteProtocolViolation,
    ShutdownIncomplete,
    WorkerFailure,
)
from moorage.protocol.binding import BYTES
from moorage.protocol.files import FileReadReply, FileReadRequest
from moorage.protocol.machines.host_side import HostWireLimits
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.fakes import FakeProvider, Pair
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair
from moorage.transports.stdio import ChildTransport

Join = Callable[..., AbstractAsyncContextManager[Pair]]


def execute(arguments: str = "{}") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name="bash", arguments=arguments), actor="agent")


def saying(text: str) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=text),))


class Worker:
    """A worker written by hand, frame by frame."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self._buffer = b""

    async def hear(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = await self.transport.receive()
            assert data, "the host closed its output"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = msgspec.json.decode(line)
        return message

    async def say(self, **fields: object) -> None:
        await self.transport.send(msgspec.json.encode(fields) + b"\n")

    async def accept(self, capabilities: tuple[str, ...] = ()) -> None:
        request = await self.hear()
        assert request["method"] == "initialize"
        data = {"version": 4, "root": "/w", "capabilities": capabilities}
        await self.say(id=request["id"], data=data)


class Scene:
    """A host connection and a hand-written worker."""

    def __init__(self, host: HostConnection, host_side: MemoryTransport, worker: Worker) -> None:
        self.host = host
        self.host_side = host_side
        self.worker = worker


@asynccontextmanager
async def opposite(
    *, is_initialized: bool = True, capacity_bytes: int = 64 * 1024, **options: Any
) -> AsyncIterator[Scene]:
    host_side, worker_side = memory_pair(capacity_bytes)
    worker = Worker(worker_side)
    with anyio.fail_after(5):
        async with HostConnection(host_side, TOKEN, **options) as host:
            if is_initialized:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(worker.accept)
                    await host.initialize(BINDING)
            yield Scene(host, host_side, worker)


class Asking:
    """A request in a task of its own."""

    def __init__(self, host: HostConnection, arguments: str = "{}", **options: Any) -> None:
        self._host = host
        self._arguments = arguments
        self._options = options
        self.scope = anyio.CancelScope()
        self.answer: ToolResult | ExecutionError | None = None
        self.ended = anyio.Event()

    async def __call__(self) -> None:
        with self.scope:
            try:
                self.answer = await self._host.request(
                    "execute", execute(self._arguments), ToolResult, **self._options
                )
            except ExecutionError as error:
                self.answer = error
        self.ended.set()


# ---------------------------------------------------------------- asking


async def test_sixteen_requests_at_once_get_their_own_answers_in_any_order(join: Join) -> None:
    async def backwards(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        number = int(request.call.arguments)
        if number < 15:
            await turns[number + 1].wait()
        turns[number].set()
        return saying(request.call.arguments)

    turns = [anyio.Event() for _ in range(16)]
    async with join(backwards) as pair:
        asking = [Asking(pair.host, str(number)) for number in range(16)]
        async with anyio.create_task_group() as tasks:
            for one in asking:
                tasks.start_soon(one)
    for number, one in enumerate(asking):
        assert one.answer == saying(str(number))


async def test_an_answer_of_any_other_type_than_asked_for_can_be_taken_raw(join: Join) -> None:
    async with join() as pair:
        raw = await pair.host.request("execute", execute("hi"), msgspec.Raw)
        assert bytes(raw) == b'{"content":[{"type":"text","text":"hi"}]}'


async def test_a_request_that_is_too_large_is_a_local_error_and_the_connection_survives(
    join: Join,
) -> None:
    limits = HostLimits(wire=HostWireLimits(max_frame_bytes=1000))

    def connect(transport: MemoryTransport) -> HostConnection:
        return HostConnection(transport, TOKEN, limits=limits)

    async with join(connect=connect) as pair:
        with pytest.raises(LocalProtocolViolation, match="the most is 1000"):
            await pair.host.request("execute", execute("x" * 1000), ToolResult)
        assert await pair.host.request("execute", execute("x"), ToolResult) == saying("x")


async def test_an_answer_of_the_wrong_shape_fails_its_request_only() -> None:
    async with opposite() as scene, anyio.create_task_group() as tasks:
        asking = Asking(scene.host)
        tasks.start_soon(asking)
        request = await scene.worker.hear()
        await scene.worker.say(id=request["id"], data={"content": 7})
        await asking.ended.wait()
        assert isinstance(asking.answer, RemoteProtocolViolation)
        assert scene.host.failure is None


async def test_a_capability_that_was_not_promised_is_refused_before_sending(join: Join) -> None:
    request = FileReadRequest(path="x", actor="a")
    async with join() as pair:
        assert pair.host.capabilities == frozenset()
        with pytest.raises(ProtocolMismatch, match=r"moorage\.bytes\.v1"):
            await pair.host.request("file/read", request, FileReadReply)


async def test_bytes_travel_unchanged_through_a_promised_capability(join: Join) -> None:
    blob = bytes(range(256)) * 4096

    async def read(request: FileReadRequest, context: RequestContext) -> FileReadReply:
        return FileReadReply(data=blob, eof=True, size=len(blob))

    methods = {"file/read": read, "file/write": read, "input/write": read}
    async with join(FakeProvider(methods, frozenset({BYTES}))) as pair:
        request = FileReadRequest(path="x", actor="a")
        reply = await pair.host.request("file/read", request, FileReadReply)
    assert reply.data == blob


async def test_asking_before_running_is_an_error_that_says_so() -> None:
    host_side, _ = memory_pair()
    host = HostConnection(host_side, TOKEN)
    with pytest.raises(LocalProtocolViolation, match="start run"):
        await host.request("execute", execute(), ToolResult)


# ---------------------------------------------------------------- cancellation


async def test_a_cancelled_caller_returns_at_once_and_the_worker_is_told() -> None:
    async with opposite() as scene, anyio.create_task_group() as tasks:
        asking = Asking(scene.host)
        tasks.start_soon(asking)
        request = await scene.worker.hear()
        asking.scope.cancel()
        await asking.ended.wait()
        assert asking.answer is None
        cancel = await scene.worker.hear()
        assert (cancel["id"], cancel["method"]) == (request["id"], "cancel")
        again = Asking(scene.host)
        tasks.start_soon(again)
        second = await scene.worker.hear()
        await scene.worker.say(id=request["id"], data=msgspec.to_builtins(saying("late")))
        await scene.worker.say(id=second["id"], data=msgspec.to_builtins(saying("mine")))
        await again.ended.wait()
        assert again.answer == saying("mine")


async def test_a_caller_cancelled_before_asking_writes_nothing() -> None:
    async with opposite() as scene:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await scene.host.request("execute", execute(), ToolResult)
        assert scope.cancelled_caught
        assert await read_what_is_there(scene.worker) == b""
        assert scene.host.failure is None


async def test_a_caller_cancelled_while_waiting_for_its_turn_writes_nothing() -> None:
    async with opposite(capacity_bytes=400) as scene, anyio.create_task_group() as tasks:
        first, second = Asking(scene.host, "x" * 1000), Asking(scene.host, "second")
        tasks.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        second.scope.cancel()
        await second.ended.wait()
        request = await scene.worker.hear()
        assert request["data"]["call"]["arguments"] == "x" * 1000
        await scene.worker.say(id=request["id"], data={})
        await first.ended.wait()
        assert first.answer == ToolResult()
        assert await read_what_is_there(scene.worker) == b""


async def test_a_caller_cancelled_in_mid_write_fails_the_connection_and_sends_no_second_frame() -> (
    None
):
    async with opposite(capacity_bytes=400) as scene, anyio.create_task_group() as tasks:
        large, waiting = Asking(scene.host, "x" * 1000), Asking(scene.host, "next")
        tasks.start_soon(large)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(waiting)
        await anyio.wait_all_tasks_blocked()
        large.scope.cancel()
        await large.ended.wait()
        await waiting.ended.wait()
        assert large.answer is None
        assert isinstance(waiting.answer, ConnectionLost)
        assert "nothing was sent of execute" in str(waiting.answer)
        assert "half of it was written" in str(scene.host.failure)
        written = await read_what_is_there(scene.worker)
        assert 0 < len(written) <= 400
        assert b"\n" not in written
        with pytest.raises(ConnectionLost, match="nothing was sent"):
            await scene.host.request("execute", execute(), ToolResult)


async def read_what_is_there(worker: Worker) -> bytes:
    """Return what the worker could read now, without waiting for more."""
    await anyio.wait_all_tasks_blocked()
    return bytes(worker.transport._incoming._buffer)


async def test_a_deadline_cancels_the_request_and_its_outcome_is_unknown() -> None:
    async with opposite() as scene, anyio.create_task_group() as tasks:
        asking = Asking(scene.host, deadline_seconds=0.01)
        tasks.start_soon(asking)
        request = await scene.worker.hear()
        await asking.ended.wait()
        assert isinstance(asking.answer, OutcomeUnknown)
        assert "not answered within 0.01 s" in str(asking.answer)
        assert (await scene.worker.hear()) == {
            "token": TOKEN.reveal(),
            "id": request["id"],
            "method": "cancel",
        }


async def test_an_answer_within_the_deadline_is_an_ordinary_answer(join: Join) -> None:
    async with join() as pair:
        reply = await pair.host.request("execute", execute("x"), ToolResult, deadline_seconds=5)
        assert reply == saying("x")


async def test_a_deadline_before_anything_was_sent_says_that_nothing_was() -> None:
    async with opposite(capacity_bytes=400) as scene, anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(scene.host, "x" * 1000))
        await anyio.wait_all_tasks_blocked()
        late = Asking(scene.host, deadline_seconds=0.01)
        await late()
        assert isinstance(late.answer, ConnectionLost)
        assert "nothing was sent" in str(late.answer)
        await scene.worker.hear()
        tasks.cancel_scope.cancel()


# ---------------------------------------------------------------- loss


@pytest.mark.parametrize("ending", [b"", b"\n", b"nonsense\n", b"x" * 2000])
async def test_what_was_in_flight_when_the_worker_went_is_unknown_and_the_rest_is_lost(
    ending: bytes,
) -> None:
    limits = HostLimits(wire=HostWireLimits(max_frame_bytes=1000))
    async with opposite(limits=limits) as scene, anyio.create_task_group() as tasks:
        asking = Asking(scene.host)
        tasks.start_soon(asking)
        request = await scene.worker.hear()
        if ending:
            await scene.worker.transport.send(ending)
        else:
            await scene.worker.transport.close_sending()
        await asking.ended.wait()
        assert isinstance(asking.answer, OutcomeUnknown)
        assert "may or may not have taken effect" in str(asking.answer)
        with pytest.raises(ConnectionLost, match="nothing was sent"):
            await scene.host.request("execute", execute(), ToolResult)
        assert isinstance(scene.host.failure, ConnectionLost)
        assert request["method"] == "execute"
        # Nothing was sent a second time.
        assert await scene.worker.transport.receive() == b""


async def test_a_worker_that_reads_no_more_loses_a_request_of_which_nothing_was_sent() -> None:
    async with opposite() as scene:
        scene.worker.transport.close_receiving()
        with pytest.raises(ConnectionLost, match=r"nothing was sent of execute.*no longer reads"):
            await scene.host.request("execute", execute(), ToolResult)


async def test_a_worker_that_stops_reading_in_the_middle_of_a_request_leaves_it_unknown() -> None:
    async with opposite(capacity_bytes=400) as scene, anyio.create_task_group() as tasks:
        asking = Asking(scene.host, "x" * 1000)
        tasks.start_soon(asking)
        await anyio.wait_all_tasks_blocked()
        scene.worker.transport.close_receiving()
        await asking.ended.wait()
        assert isinstance(asking.answer, OutcomeUnknown)


async def test_a_transport_that_breaks_while_receiving_is_a_loss() -> None:
    class Breaking(MemoryTransport):
        async def receive(self) -> bytes:
            raise anyio.BrokenResourceError

    host_side, _ = memory_pair()
    host_side.__class__ = Breaking
    with anyio.fail_after(5):
        async with HostConnection(host_side, TOKEN) as host:
            await anyio.wait_all_tasks_blocked()
            assert "closed the connection" in str(host.failure)


async def test_the_exit_code_and_last_words_of_a_worker_stand_in_what_its_callers_get() -> None:
    script = "head -n 1 >/dev/null; echo 'disk full' >&2; exit 7"
    transport = await ChildTransport.start(["/bin/sh", "-c", script], variables=dict(os.environ))
    with anyio.fail_after(5):
        async with HostConnection(transport, TOKEN) as host:
            with pytest.raises(
                ConnectionLost, match=r"could not be initialized.*exited with 7.*disk full"
            ):
                await host.initialize(BINDING)
            assert "disk full" in str(host.failure)


# ---------------------------------------------------------------- initialization


async def test_initializing_gives_the_root_and_the_capabilities() -> None:
    async with opposite(is_initialized=False) as scene, anyio.create_task_group() as tasks:
        tasks.start_soon(scene.worker.accept, (BYTES, "later.v9"))
        reply = await scene.host.initialize(BINDING)
        assert reply.root == "/w"
        assert scene.host.capabilities == {BYTES, "later.v9"}


async def test_repeating_the_initialization_gives_the_same_reply_and_another_binding_does_not(
    join: Join,
) -> None:
    async with join(is_initialized=False) as pair:
        first = await pair.host.initialize(BINDING)
        assert await pair.host.initialize(BINDING) == first
        with pytest.raises(InvalidArguments, match="environment would"):
            await pair.host.initialize(msgspec.structs.replace(BINDING, environment={"A": "b"}))
        assert await pair.host.request("execute", execute("x"), ToolResult) == saying("x")


async def test_a_malformed_binding_is_not_sent_and_another_may_follow(join: Join) -> None:
    async with join(is_initialized=False) as pair:
        with pytest.raises(InvalidArguments, match="root"):
            await pair.host.initialize(msgspec.structs.replace(BINDING, root="relative"))
        await pair.host.initialize(BINDING)


@pytest.mark.parametrize("version", [3, 5])
async def test_a_worker_of_another_version_ends_the_connection(version: int) -> None:
    async with opposite(is_initialized=False) as scene, anyio.create_task_group() as tasks:

        async def answer() -> None:
            request = await scene.worker.hear()
            await scene.worker.say(id=request["id"], data={"version": version, "root": "/w"})

        tasks.start_soon(answer)
        with pytest.raises(ProtocolMismatch, match=f"protocol {version}"):
            await scene.host.initialize(BINDING)
        assert await scene.worker.transport.receive() == b""
        with pytest.raises(ConnectionLost):
            await scene.host.request("execute", execute(), ToolResult)


async def test_a_failed_initialization_ends_the_connection_and_a_new_one_works(join: Join) -> None:
    async def fail(context: RequestContext) -> None:
        raise WorkerFailure("no disk.")

    provider = FakeProvider({})
    provider.on_initialize = fail
    async with join(provider, is_initialized=False) as pair:
        with pytest.raises(WorkerFailure, match="no disk"):
            await pair.host.initialize(BINDING)
        await pair.served.wait()
        with pytest.raises(ConnectionLost):
            await pair.host.initialize(BINDING)
    async with join() as pair:
        assert await pair.host.request("execute", execute("x"), ToolResult) == saying("x")


async def test_a_cancelled_initialization_ends_the_connection() -> None:
    async with opposite(is_initialized=False) as scene:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(scene.host.initialize, BINDING)
                await scene.worker.hear()
                scope.cancel()
        assert await scene.worker.transport.receive() == b""
        assert "did not succeed" in str(scene.host.failure)


# ---------------------------------------------------------------- process events


async def test_process_events_reach_the_host_with_their_gaps(join: Join) -> None:
    event = ProcessEvent(
        type="started",
        process=ProcessRecord(
            id="proc-1",
            owner_kind="main_agent",
            owner_id="agent",
            lifecycle="session",
            status="running",
            pid=1,
            pgid=1,
            log_path="/l",
            command="x",
            cwd="/w",
            started_at="2026-01-01T00:00:00Z",
            updated_at="2026-01-01T00:00:00Z",
        ),
    )
    seen: list[tuple[ProcessEvent, bool]] = []

    async def publish(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        await context.emit_process(event)
        return ToolResult()

    async def publish_early(context: RequestContext) -> None:
        await context.emit_process(event)

    def connect(transport: MemoryTransport) -> HostConnection:
        return HostConnection(
            transport, TOKEN, on_process_event=lambda event, is_gap: seen.append((event, is_gap))
        )

    provider = FakeProvider({"execute": publish})
    provider.on_initialize = publish_early
    async with join(provider, connect=connect) as pair:
        for _ in range(2):
            await pair.host.request("execute", execute(), ToolResult)
    assert seen == [(event, True), (event, False)]
    async with join(publish) as pair:
        await pair.host.request("execute", execute(), ToolResult)


# ---------------------------------------------------------------- the end


async def test_closing_answers_what_was_in_flight_and_ends_the_worker(join: Join) -> None:
    async def wait(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        started.set()
        await anyio.sleep_forever()
        return ToolResult()

    started = anyio.Event()
    async with join(wait) as pair, anyio.create_task_group() as tasks:
        asking = Asking(pair.host)
        tasks.start_soon(asking)
        await started.wait()
        await pair.host.aclose()
        await asking.ended.wait()
        await pair.served.wait()
        assert isinstance(asking.answer, OutcomeUnknown)
        await pair.host.aclose()
        with pytest.raises(ConnectionLost, match="closed here"):
            await pair.host.request("execute", execute(), ToolResult)


async def test_closing_a_connection_that_never_ran_closes_its_transport() -> None:
    host_side, worker_side = memory_pair()
    host = HostConnection(host_side, TOKEN)
    with anyio.fail_after(5):
        await host.aclose()
        assert await worker_side.receive() == b""
        async with anyio.create_task_group() as tasks:
            await tasks.start(host.run)


async def test_a_worker_that_had_to_be_killed_is_reported_once_by_the_close() -> None:
    transport = await ChildTransport.start(
        [sys.executable, "-c", "import signal; signal.pause()"], variables={}, grace_seconds=0.01
    )
    with anyio.fail_after(10):
        connection = HostConnection(transport, TOKEN)
        with pytest.raises(ShutdownIncomplete, match="killed"):
            async with connection:
                pass
        await connection.aclose()


async def test_a_run_that_is_cancelled_closes_the_transport_and_answers_its_callers() -> None:
    host_side, worker_side = memory_pair()
    worker = Worker(worker_side)
    host = HostConnection(host_side, TOKEN)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as callers:
            async with anyio.create_task_group() as owner:
                await owner.start(host.run)
                owner.start_soon(worker.accept)
                await host.initialize(BINDING)
                asking = Asking(host)
                callers.start_soon(asking)
                await worker.hear()
                owner.cancel_scope.cancel()
            await asking.ended.wait()
        assert isinstance(asking.answer, OutcomeUnknown)
        assert await worker_side.receive() == b""
