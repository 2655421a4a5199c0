"""The host's end: what was in flight is unknown, what was not sent is lost, nothing is replayed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection, HostLimits
from moorage.connection.provider import RequestContext
from moorage.errors import (
    ConnectionLost,
    InvalidArguments,
    LocalProtocolViolation,
    OutcomeUnknown,
    ProtocolMismatch,
    RemoteProtocolViolation,
    WorkerFailure,
)
from moorage.protocol.binding import BYTES
from moorage.protocol.files import FileReadReply, FileReadRequest
from moorage.protocol.machines.host_side import HostWireLimits
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.protocol.tool_calls import ExecuteRequest, ToolResult
from moorage.testing.asking import Asking, execute, saying
from moorage.testing.fakes import FakeProvider, Pair
from moorage.testing.peers import ScriptedWorker
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair

Join = Callable[..., AbstractAsyncContextManager[Pair]]
Opposite = Callable[..., AbstractAsyncContextManager[Any]]


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


async def test_an_answer_of_the_wrong_shape_fails_its_request_only(opposite: Opposite) -> None:
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


async def test_a_cancelled_caller_returns_at_once_and_the_worker_is_told(
    opposite: Opposite,
) -> None:
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


async def test_a_caller_cancelled_before_asking_writes_nothing(opposite: Opposite) -> None:
    async with opposite() as scene:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await scene.host.request("execute", execute(), ToolResult)
        assert scope.cancelled_caught
        assert await read_what_is_there(scene.worker) == b""
        assert scene.host.failure is None


async def test_a_caller_cancelled_while_waiting_for_its_turn_writes_nothing(
    opposite: Opposite,
) -> None:
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


async def test_a_caller_cancelled_in_mid_write_fails_the_connection_and_sends_no_second_frame(
    opposite: Opposite,
) -> None:
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


async def read_what_is_there(worker: ScriptedWorker) -> bytes:
    """Return what the worker could read now, without waiting for more."""
    await anyio.wait_all_tasks_blocked()
    return bytes(worker.transport._incoming._buffer)


async def test_a_deadline_cancels_the_request_and_its_outcome_is_unknown(
    opposite: Opposite,
) -> None:
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


async def test_a_deadline_before_anything_was_sent_says_that_nothing_was(
    opposite: Opposite,
) -> None:
    async with opposite(capacity_bytes=400) as scene, anyio.create_task_group() as tasks:
        tasks.start_soon(Asking(scene.host, "x" * 1000))
        await anyio.wait_all_tasks_blocked()
        late = Asking(scene.host, deadline_seconds=0.01)
        await late()
        assert isinstance(late.answer, ConnectionLost)
        assert "nothing was sent" in str(late.answer)
        await scene.worker.hear()
        tasks.cancel_scope.cancel()


# ---------------------------------------------------------------- initialization


async def test_initializing_gives_the_root_and_the_capabilities(opposite: Opposite) -> None:
    async with opposite(is_initialized=False) as scene, anyio.create_task_group() as tasks:
        tasks.start_soon(scene.worker.accept, (BYTES, "later.v9"))
        reply = await scene.host.initialize(BINDING)
        assert reply.root == BINDING.root
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
async def test_a_worker_of_another_version_ends_the_connection(
    opposite: Opposite, version: int
) -> None:
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


async def test_a_cancelled_initialization_ends_the_connection(opposite: Opposite) -> None:
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
