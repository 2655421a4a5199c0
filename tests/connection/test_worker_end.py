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
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.fakes import FakeProvider, Pair
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair

Join = Callable[..., AbstractAsyncContextManager[Pair]]
Serving = Callable[..., AbstractAsyncContextManager[Any]]

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


async def echo(request: ExecuteRequest, context: RequestContext) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=request.call.arguments),))


def provider_of(**methods: Any) -> FakeProvider:
    handlers = {"execute": echo, **methods}
    return FakeProvider({name.replace("__", "/"): handler for name, handler in handlers.items()})


# ---------------------------------------------------------------- cancellation


async def test_the_reply_of_a_cancelled_request_comes_after_its_handler_has_cleaned_up(
    serving: Serving, slow: Any
) -> None:
    async with serving(provider_of(execute=slow)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.ask("1", "execute", execute())
        await slow.started.wait()
        await peer.ask("1", "cancel")
        await slow.is_cleaning_up.wait()
        await peer.ask("2", "execute", execute("quick"))
        assert (await peer.hear())["id"] == "2"
        assert not slow.has_ended
        slow.may_end.set()
        reply = await peer.hear()
        assert slow.has_ended
        assert reply["id"] == "1"
        assert reply["error"].startswith("cancelled: ")
        await peer.ask("3", "execute", execute("quick"))
        assert (await peer.hear())["id"] == "3"
        await peer.transport.close_sending()


async def test_a_handler_that_ends_in_spite_of_a_cancel_has_its_result_sent(
    serving: Serving,
) -> None:
    async def stubborn(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        with anyio.CancelScope(shield=True):
            started.set()
            await go_on.wait()
        return ToolResult(is_error=True)

    started, go_on = anyio.Event(), anyio.Event()
    async with serving(provider_of(execute=stubborn)) as bench:
        await bench.peer.open()
        await bench.peer.ask("1", "execute", execute())
        await started.wait()
        await bench.peer.ask("1", "cancel")
        await anyio.wait_all_tasks_blocked()
        go_on.set()
        assert (await bench.peer.hear())["data"] == {"is_error": True}
        await bench.peer.transport.close_sending()


async def test_a_request_cancelled_before_its_handler_began_never_begins(serving: Serving) -> None:
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


async def test_an_error_of_a_cancelled_handler_is_its_reply(serving: Serving) -> None:
    async def failing(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise WorkerFailure("the kill failed.")

    started = anyio.Event()
    async with serving(provider_of(execute=failing)) as bench:
        await bench.peer.open()
        await bench.peer.ask("1", "execute", execute())
        await started.wait()
        await bench.peer.ask("1", "cancel")
        assert (await bench.peer.hear())["error"] == "worker_failure: the kill failed."
        await bench.peer.transport.close_sending()


# ---------------------------------------------------------------- initialization


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_after_a_failed_or_cancelled_initialization_every_call_fails(
    serving: Serving, is_cancelled: bool
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
        await peer.ask("0", "initialize", BINDING)
        await started.wait()
        if is_cancelled:
            await peer.ask("0", "cancel")
        assert (await peer.hear())["error"].startswith(
            "cancelled: " if is_cancelled else "worker_failure: no disk."
        )
        await peer.ask("1", "execute", execute())
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


async def test_an_over_size_reply_fails_its_request_and_the_connection_survives(join: Join) -> None:
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


async def test_a_malformed_answer_fails_the_call_and_its_parent_even_when_it_is_caught(
    serving: Serving,
) -> None:
    async def program(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        if request.call.arguments == "quick":
            return ToolResult()
        with suppress(ProtocolViolation):
            await context.invoke_tool(CALL)
        return ToolResult()

    async with serving(provider_of(execute=program)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.ask("1", "execute", execute())
        call = await peer.hear()
        assert (call["method"], call["parent_id"]) == ("tool", "1")
        await peer.ask(call["id"], "callback", 7)
        reply = await peer.hear()
        assert reply["id"] == "1"
        assert reply["error"].startswith("protocol_violation: the host sent a malformed callback")
        await peer.ask("2", "execute", execute("quick"))
        assert (await peer.hear())["id"] == "2"
        await peer.transport.close_sending()


async def test_a_call_cancelled_by_its_program_drops_the_answer_and_the_program_goes_on(
    serving: Serving,
) -> None:
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
        await peer.ask("1", "execute", execute())
        first, second = await peer.hear(), await peer.hear()
        for call, text in ((first, "first"), (second, "second")):
            answer = {"data": {"content": [{"type": "text", "text": text}]}}
            await peer.ask(call["id"], "callback", answer)
        assert (await peer.hear())["data"]["content"][0]["text"] == "second"
        await peer.transport.close_sending()


async def test_a_context_kept_after_its_request_ended_calls_no_tools(serving: Serving) -> None:
    kept: list[RequestContext] = []

    async def keep(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        kept.append(context)
        return ToolResult()

    async with serving(provider_of(execute=keep)) as bench:
        await bench.peer.open()
        await bench.peer.ask("1", "execute", execute())
        await bench.peer.hear()
        assert kept[0].request_id == "1"
        with pytest.raises(LocalProtocolViolation, match="has ended"):
            await kept[0].invoke_tool(CALL)
        await kept[0].emit_process(EVENT)
        assert (await bench.peer.hear())["method"] == "process"
        await bench.peer.transport.close_sending()


async def test_a_request_cancelled_while_its_event_is_half_written_tears_no_frame(
    serving: Serving,
) -> None:
    async def publish(request: ExecuteRequest, context: RequestContext) -> ToolResult:
        await context.emit_process(EVENT)
        return ToolResult()

    async with serving(provider_of(execute=publish), capacity_bytes=300) as bench:
        peer = bench.peer
        await peer.open()
        await peer.ask("1", "execute", execute())
        await anyio.wait_all_tasks_blocked()
        await peer.ask("1", "cancel")
        await anyio.wait_all_tasks_blocked()
        assert (await peer.hear())["method"] == "process"
        assert (await peer.hear())["id"] == "1"
        await peer.transport.close_sending()


async def test_an_event_before_the_initialization_is_not_sent(serving: Serving) -> None:
    async def publish(context: RequestContext) -> None:
        await context.emit_process(EVENT)

    provider = provider_of()
    provider.on_initialize = publish
    async with serving(provider) as bench:
        reply = await bench.peer.open()
        assert reply == {"id": "0", "data": {"version": BINDING.version, "root": BINDING.root}}
        await bench.peer.transport.close_sending()
        with pytest.raises(EOFError):
            await bench.peer.hear()


async def test_a_host_that_asks_without_reading_the_answers_is_given_up(serving: Serving) -> None:
    limits = WorkerLimits(last_send_seconds=0.01, max_unsent_frames=3)
    async with serving(provider_of(), limits=limits, capacity_bytes=300) as bench:
        await bench.peer.open()
        with suppress(anyio.BrokenResourceError):
            for number in range(20):
                await bench.peer.ask(str(number), "x" * 90)
        await bench.served.wait()
    assert bench.provider.notes == ["initialize", "close"]


async def test_nothing_follows_half_a_frame(serving: Serving) -> None:
    class Tearing(MemoryTransport):
        async def send(self, data: bytes) -> None:
            await super().send(data)
            self.is_torn = b"half" in data

    provider = provider_of()
    async with serving(provider) as bench:
        peer = bench.peer
        await peer.open()
        bench.worker_side.__class__ = Tearing
        await peer.ask("1", "execute", execute("half"))
        assert (await peer.hear())["id"] == "1"
        await peer.ask("2", "execute", execute())
        await anyio.wait_all_tasks_blocked()
        await peer.transport.close_sending()
        assert await peer.transport.receive() == b""


async def test_a_lost_worker_is_seen_by_its_host(slow: Any, join: Join) -> None:
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
