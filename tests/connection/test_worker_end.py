"""The worker's end: handlers end before their replies, and everything before the close."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import anyio
import msgspec
import pytest

from moorage.connection.provider import RequestContext
from moorage.connection.worker_end import WorkerLimits, serve
from moorage.errors import (
    ConnectionLost,
    InvalidArguments,
    LocalProtocolViolation,
    OutcomeUnknown,
    ProtocolMismatch,
    ProtocolViolation,
    Refused,
    WorkerFailure,
)
from moorage.protocol.binding import BYTES
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.fakes import FakeProvider, Pair
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair

Join = Callable[..., AbstractAsyncContextManager[Pair]]

EVENT = ProcessEvent(
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
CALL = ToolCall(name="read_file")


def execute(arguments: str = "{}") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name="bash", arguments=arguments), actor="agent")


def frame(**fields: object) -> bytes:
    return msgspec.json.encode({"token": TOKEN.reveal(), **fields}) + b"\n"


class Peer:
    """A host written by hand, frame by frame."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.transport = transport
        self._buffer = b""

    async def say(self, **fields: object) -> None:
        await self.transport.send(frame(**fields))

    async def open(self) -> None:
        await self.say(id="0", method="initialize", data=msgspec.to_builtins(BINDING))
        assert (await self.hear())["id"] == "0"

    async def execute(self, request_id: str, arguments: str = "{}") -> None:
        await self.say(
            id=request_id, method="execute", data=msgspec.to_builtins(execute(arguments))
        )

    async def hear(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = await self.transport.receive()
            assert data, "the worker closed its output"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = msgspec.json.decode(line)
        return message


class Bench:
    """A served provider with a hand-written host."""

    def __init__(self, provider: FakeProvider, ours: MemoryTransport, its: MemoryTransport) -> None:
        self.served = anyio.Event()
        self.provider = provider
        self.peer = Peer(ours)
        self.worker_side = its


class serving:  # noqa: N801 - reads as a statement
    """Serve a provider to a hand-written host, within five seconds."""

    def __init__(self, provider: FakeProvider, **options: Any) -> None:
        self._provider = provider
        self._options = options

    async def __aenter__(self) -> Bench:
        self._deadline = anyio.fail_after(5)
        self._deadline.__enter__()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        capacity = self._options.pop("capacity_bytes", 64 * 1024)
        bench = Bench(self._provider, *memory_pair(capacity))

        async def run() -> None:
            await serve(bench.worker_side, self._provider, token=TOKEN, **self._options)
            bench.served.set()

        self._tasks.start_soon(run)
        return bench

    async def __aexit__(self, *exc_info: Any) -> None:
        try:
            await self._tasks.__aexit__(*exc_info)
        finally:
            self._deadline.__exit__(*exc_info)


async def echo(request: ExecuteRequest, context: RequestContext) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=request.call.arguments),))


def provider_of(**methods: Any) -> FakeProvider:
    handlers = {"execute": echo, **methods}
    return FakeProvider({name.replace("__", "/"): handler for name, handler in handlers.items()})


class SlowHandler:
    """Waits until it is cancelled, then cleans up for as long as the test wants."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.is_cleaning_up = anyio.Event()
        self.may_end = anyio.Event()
        self.has_ended = False

    async def __call__(self, request: ExecuteRequest, context: RequestContext) -> ToolResult:
        if request.call.arguments == "quick":
            return await echo(request, context)
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                self.is_cleaning_up.set()
                await self.may_end.wait()
            self.has_ended = True


# ---------------------------------------------------------------- cancellation


async def test_the_reply_of_a_cancelled_request_comes_after_its_handler_has_cleaned_up() -> None:
    slow = SlowHandler()
    async with serving(provider_of(execute=slow)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        await slow.started.wait()
        await peer.say(id="1", method="cancel")
        await slow.is_cleaning_up.wait()
        await peer.execute("2", "quick")
        assert (await peer.hear())["id"] == "2"
        assert not slow.has_ended
        slow.may_end.set()
        reply = await peer.hear()
        assert slow.has_ended
        assert reply["id"] == "1"
        assert reply["error"].startswith("cancelled: ")
        await peer.execute("3", "quick")
        assert (await peer.hear())["id"] == "3"
        await peer.transport.close_sending()


async def test_a_handler_that_ends_in_spite_of_a_cancel_has_its_result_sent() -> None:
    async def stubborn(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        with anyio.CancelScope(shield=True):
            started.set()
            await go_on.wait()
        return ToolResult(is_error=True)

    started, go_on = anyio.Event(), anyio.Event()
    async with serving(provider_of(execute=stubborn)) as bench:
        await bench.peer.open()
        await bench.peer.execute("1")
        await started.wait()
        await bench.peer.say(id="1", method="cancel")
        await anyio.wait_all_tasks_blocked()
        go_on.set()
        assert (await bench.peer.hear())["data"] == {"is_error": True}
        await bench.peer.transport.close_sending()


async def test_a_request_cancelled_before_its_handler_began_never_begins() -> None:
    begun: list[str] = []

    async def note(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        begun.append(request.call.arguments)
        return ToolResult()

    async with serving(provider_of(execute=note)) as bench:
        await bench.peer.open()
        both = frame(id="1", method="execute", data=msgspec.to_builtins(execute()))
        await bench.peer.transport.send(both + frame(id="1", method="cancel"))
        assert (await bench.peer.hear())["error"].startswith("cancelled: ")
        await bench.peer.transport.close_sending()
    assert begun == []


async def test_an_error_of_a_cancelled_handler_is_its_reply() -> None:
    async def failing(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise WorkerFailure("the kill failed.")

    started = anyio.Event()
    async with serving(provider_of(execute=failing)) as bench:
        await bench.peer.open()
        await bench.peer.execute("1")
        await started.wait()
        await bench.peer.say(id="1", method="cancel")
        assert (await bench.peer.hear())["error"] == "worker_failure: the kill failed."
        await bench.peer.transport.close_sending()


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("ending", [b"", b"\n", b"not json\n", b"x" * 2000])
async def test_the_end_or_a_malformed_line_cancels_drains_and_then_closes_once(
    ending: bytes,
) -> None:
    slow = SlowHandler()
    limits = WorkerLimits(wire=WorkerWireLimits(max_frame_bytes=1000))
    async with serving(provider_of(execute=slow), limits=limits) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        await slow.started.wait()
        if ending:
            await peer.transport.send(ending)
        else:
            await peer.transport.close_sending()
        await slow.is_cleaning_up.wait()
        assert bench.provider.notes == ["initialize"]
        slow.may_end.set()
        assert (await peer.hear())["error"].startswith("cancelled: ")
        assert await peer.transport.receive() == b""
        await bench.served.wait()
    assert bench.provider.notes == ["initialize", "close"]
    assert slow.has_ended


async def test_broken_output_ends_everything_while_the_input_stays_open_and_blocked() -> None:
    slow = SlowHandler()
    slow.may_end.set()
    async with serving(provider_of(execute=slow)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        await slow.started.wait()
        peer.transport.close_receiving()
        await peer.execute("2", "quick")
        await bench.served.wait()
    assert slow.has_ended
    assert bench.provider.notes == ["initialize", "close"]


async def test_a_host_that_reads_no_more_cannot_hold_the_end_for_ever() -> None:
    slow = SlowHandler()
    slow.may_end.set()
    limits = WorkerLimits(last_send_seconds=0.01)
    async with serving(provider_of(execute=slow), limits=limits, capacity_bytes=300) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        await slow.started.wait()
        await peer.execute("2", "quick")
        await peer.say(id="3", method="x" * 90)
        await peer.say(id="4", method="x" * 90)
        await peer.transport.close_sending()
        await bench.served.wait()
    assert bench.provider.notes == ["initialize", "close"]


async def test_input_that_breaks_is_an_end_like_any_other() -> None:
    class Breaking(MemoryTransport):
        async def receive(self) -> bytes:
            raise anyio.BrokenResourceError

    _, worker_side = memory_pair()
    worker_side.__class__ = Breaking
    provider = provider_of()
    with anyio.fail_after(5):
        await serve(worker_side, provider, token=TOKEN)
    assert provider.notes == ["close"]


async def test_an_end_before_the_initialization_still_closes_the_provider_once() -> None:
    async with serving(provider_of()) as bench:
        await bench.peer.transport.close_sending()
        await bench.served.wait()
    assert bench.provider.notes == ["close"]


async def test_tasks_of_the_connection_outlive_requests_and_end_before_the_close() -> None:
    async def background() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            provider.notes.append("background ended")

    async def start(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        context.lifetime.start_soon(background)
        return ToolResult()

    provider = provider_of(execute=start)
    async with serving(provider) as bench:
        await bench.peer.open()
        await bench.peer.execute("1")
        await bench.peer.hear()
        await anyio.wait_all_tasks_blocked()
        assert provider.notes == ["initialize"]
        await bench.peer.transport.close_sending()
    assert provider.notes == ["initialize", "background ended", "close"]


async def test_a_failed_close_reaches_the_caller_and_the_transport_is_closed_all_the_same() -> None:
    async def fail() -> None:
        raise WorkerFailure("a process would not end.")

    peer, worker_side = memory_pair()
    provider = provider_of()
    provider.on_close = fail
    await peer.close_sending()
    with anyio.fail_after(5):
        with pytest.raises(WorkerFailure, match="would not end"):
            await serve(worker_side, provider, token=TOKEN)
        assert await peer.receive() == b""


async def test_a_served_connection_that_is_cancelled_drains_and_closes_too() -> None:
    slow = SlowHandler()
    slow.may_end.set()
    peer, worker_side = memory_pair()
    provider = provider_of(execute=slow)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: serve(worker_side, provider, token=TOKEN))
            hand = Peer(peer)
            await hand.open()
            await hand.execute("0", "quick")
            await hand.hear()
            await hand.execute("1")
            await slow.started.wait()
            tasks.cancel_scope.cancel()
    assert slow.has_ended
    assert provider.notes == ["initialize", "close"]


async def test_a_cancelled_initialization_leaves_the_pin_free_for_another_connection() -> None:
    async def never(context: RequestContext) -> None:
        started.set()
        await anyio.sleep_forever()

    started = anyio.Event()
    pin = Pin()
    provider = provider_of()
    provider.on_initialize = never
    peer, worker_side = memory_pair()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: serve(worker_side, provider, pin=pin))
            await Peer(peer).say(id="0", method="initialize", data=msgspec.to_builtins(BINDING))
            await started.wait()
            tasks.cancel_scope.cancel()
    assert pin.token is None


# ---------------------------------------------------------------- initialization


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_after_a_failed_or_cancelled_initialization_every_call_fails(
    is_cancelled: bool,
) -> None:
    async def hinder(context: RequestContext) -> None:
        started.set()
        if not is_cancelled:
            raise WorkerFailure("no disk.")
        await anyio.sleep_forever()

    started = anyio.Event()
    provider = provider_of()
    provider.on_initialize = hinder
    async with serving(provider) as bench:
        peer = bench.peer
        await peer.say(id="0", method="initialize", data=msgspec.to_builtins(BINDING))
        await started.wait()
        if is_cancelled:
            await peer.say(id="0", method="cancel")
        assert (await peer.hear())["error"].startswith(
            "cancelled: " if is_cancelled else "worker_failure: no disk."
        )
        await peer.execute("1")
        assert "open a new connection" in (await peer.hear())["error"]
        await peer.transport.close_sending()
    assert provider.notes == ["initialize", "close"]


async def test_a_provider_that_promises_what_it_does_not_serve_is_refused_before_reading() -> None:
    provider = FakeProvider({"execute": echo}, frozenset({BYTES}))
    _, worker_side = memory_pair()
    with pytest.raises(LocalProtocolViolation, match="file/read"):
        await serve(worker_side, provider, token=TOKEN)


# ---------------------------------------------------------------- failures of handlers


async def test_what_a_handler_raises_is_its_reply_and_the_unexpected_is_logged(
    join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        match request.call.arguments:
            case "refused":
                raise Refused("no.", reason="read_only")
            case "group":
                raise ExceptionGroup("g", [InvalidArguments("path: expected text.")])
            case _:
                raise ZeroDivisionError("a fault")

    async with join(fail) as pair:
        with pytest.raises(Refused) as refused:
            await pair.host.request("execute", execute("refused"), ToolResult)
        assert refused.value.reason == "read_only"
        assert caplog.records == []
        with pytest.raises(InvalidArguments, match=r"path: expected text\."):
            await pair.host.request("execute", execute("group"), ToolResult)
        with pytest.raises(WorkerFailure, match="ZeroDivisionError: a fault"):
            await pair.host.request("execute", execute(), ToolResult)
    assert any(record.exc_info for record in caplog.records)
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


async def test_an_over_size_reply_fails_its_request_and_the_connection_survives(
    join: Join,
) -> None:
    async def grow(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        text = ContentPart(type="text", text="x" * int(request.call.arguments))
        return ToolResult(content=(text,))

    limits = WorkerLimits(wire=WorkerWireLimits(max_frame_bytes=1000))
    async with join(grow, limits=limits) as pair:
        with pytest.raises(WorkerFailure, match="its answer is lost"):
            await pair.host.request("execute", execute("1000"), ToolResult)
        assert len((await pair.host.request("execute", execute("500"), ToolResult)).text) == 500


async def test_an_unserved_method_is_an_error_that_names_it(join: Join) -> None:
    async with join() as pair:
        with pytest.raises(ProtocolMismatch, match="'process/list'"):
            await pair.host.request("process/list", None, tuple)


async def test_tasks_kept_for_the_next_requests_are_used_again_and_bounded(join: Join) -> None:
    seen: set[int] = set()

    async def who(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        seen.add(anyio.get_current_task().id)
        return ToolResult()

    async with join(who, limits=WorkerLimits(max_idle_tasks=1)) as pair:
        for _ in range(5):
            await pair.host.request("execute", execute(), ToolResult)
        one_after_another = len(seen)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(pair.host.request, "execute", execute(), ToolResult)
    # The task that served the initialization serves what follows it.
    assert one_after_another == 1
    assert len(seen) > 1


# ---------------------------------------------------------------- nested calls and events


async def test_a_malformed_answer_fails_the_call_and_its_parent_even_when_it_is_caught() -> None:
    async def program(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        if request.call.arguments == "quick":
            return ToolResult()
        with suppress(ProtocolViolation):
            await context.invoke_tool(CALL)
        return ToolResult()

    async with serving(provider_of(execute=program)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        call = await peer.hear()
        assert (call["method"], call["parent_id"]) == ("tool", "1")
        await peer.say(id=call["id"], method="callback", data=7)
        reply = await peer.hear()
        assert reply["id"] == "1"
        assert reply["error"].startswith("protocol_violation: the host sent a malformed callback")
        await peer.execute("2", "quick")
        assert (await peer.hear())["id"] == "2"
        await peer.transport.close_sending()


async def test_a_call_cancelled_by_its_program_drops_the_answer_and_the_program_goes_on() -> None:
    async def program(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(context.invoke_tool, CALL)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        return await context.invoke_tool(CALL)

    async with serving(provider_of(execute=program)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        first, second = await peer.hear(), await peer.hear()
        for call, text in ((first, "first"), (second, "second")):
            answer = {"data": {"content": [{"type": "text", "text": text}]}}
            await peer.say(id=call["id"], method="callback", data=answer)
        assert (await peer.hear())["data"]["content"][0]["text"] == "second"
        await peer.transport.close_sending()


async def test_a_context_kept_after_its_request_ended_calls_no_tools() -> None:
    kept: list[RequestContext] = []

    async def keep(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        kept.append(context)
        return ToolResult()

    async with serving(provider_of(execute=keep)) as bench:
        await bench.peer.open()
        await bench.peer.execute("1")
        await bench.peer.hear()
        assert kept[0].request_id == "1"
        with pytest.raises(LocalProtocolViolation, match="has ended"):
            await kept[0].invoke_tool(CALL)
        await kept[0].emit_process(EVENT)
        assert (await bench.peer.hear())["method"] == "process"
        await bench.peer.transport.close_sending()


async def test_a_request_cancelled_while_its_event_is_half_written_tears_no_frame() -> None:
    async def publish(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        await context.emit_process(EVENT)
        return ToolResult()

    async with serving(provider_of(execute=publish), capacity_bytes=300) as bench:
        peer = bench.peer
        await peer.open()
        await peer.execute("1")
        await anyio.wait_all_tasks_blocked()
        await peer.say(id="1", method="cancel")
        await anyio.wait_all_tasks_blocked()
        assert (await peer.hear())["method"] == "process"
        assert (await peer.hear())["id"] == "1"
        await peer.transport.close_sending()


async def test_an_event_before_the_initialization_is_not_sent(join: Join) -> None:
    async def publish(context: RequestContext) -> None:
        await context.emit_process(EVENT)

    provider = provider_of()
    provider.on_initialize = publish
    async with serving(provider) as bench:
        await bench.peer.open()
        await bench.peer.transport.close_sending()


async def test_a_host_that_asks_without_reading_the_answers_is_given_up() -> None:
    limits = WorkerLimits(last_send_seconds=0.01, max_unsent_frames=3)
    async with serving(provider_of(), limits=limits, capacity_bytes=300) as bench:
        await bench.peer.open()
        with suppress(anyio.BrokenResourceError):
            for number in range(20):
                await bench.peer.say(id=str(number), method="x" * 90)
        await bench.served.wait()
    assert bench.provider.notes == ["initialize", "close"]


async def test_nothing_follows_half_a_frame() -> None:
    class Tearing(MemoryTransport):
        async def send(self, data: bytes) -> None:
            await super().send(data)
            self.is_torn = b"half" in data

    provider = provider_of()
    async with serving(provider) as bench:
        peer = bench.peer
        await peer.open()
        bench.worker_side.__class__ = Tearing
        await peer.execute("1", "half")
        assert (await peer.hear())["id"] == "1"
        await peer.execute("2")
        await anyio.wait_all_tasks_blocked()
        await peer.transport.close_sending()
        assert await peer.transport.receive() == b""


async def test_a_lost_worker_is_seen_by_its_host(join: Join) -> None:
    slow = SlowHandler()
    slow.may_end.set()
    async with join(slow) as pair:
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(OutcomeUnknown):
                    await pair.host.request("execute", execute(), ToolResult)

            tasks.start_soon(ask)
            await slow.started.wait()
            await pair.worker_side.aclose()
        with pytest.raises(ConnectionLost):
            await pair.host.request("execute", execute(), ToolResult)
