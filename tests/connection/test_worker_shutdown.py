"""How the worker's end comes to its end: cancel, drain, then close, once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from moorage.connection.provider import RequestContext
from moorage.connection.worker_end import WorkerLimits, serve
from moorage.errors import (
    WorkerFailure,
)
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.fakes import FakeProvider
from moorage.testing.peers import ScriptedHost
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair

Serving = Callable[..., AbstractAsyncContextManager[Any]]


def execute(arguments: str = "{}") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name="bash", arguments=arguments), actor="agent")


async def echo(request: ExecuteRequest, context: RequestContext) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=request.call.arguments),))


def provider_of(**methods: Any) -> FakeProvider:
    handlers = {"execute": echo, **methods}
    return FakeProvider({name.replace("__", "/"): handler for name, handler in handlers.items()})


@pytest.mark.parametrize("ending", [b"", b"\n", b"not json\n", b"x" * 2000])
async def test_the_end_or_a_malformed_line_cancels_drains_and_then_closes_once(
    serving: Serving, slow: Any, ending: bytes
) -> None:
    limits = WorkerLimits(wire=WorkerWireLimits(max_frame_bytes=1000))
    async with serving(provider_of(execute=slow), limits=limits) as bench:
        peer = bench.peer
        await peer.open()
        await peer.ask("1", "execute", execute())
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


async def test_broken_output_ends_everything_while_the_input_stays_open_and_blocked(
    serving: Serving, slow: Any
) -> None:
    slow.may_end.set()
    async with serving(provider_of(execute=slow)) as bench:
        peer = bench.peer
        await peer.open()
        await peer.ask("1", "execute", execute())
        await slow.started.wait()
        peer.transport.close_receiving()
        await peer.ask("2", "execute", execute("quick"))
        await bench.served.wait()
    assert slow.has_ended
    assert bench.provider.notes == ["initialize", "close"]


async def test_a_host_that_reads_no_more_cannot_hold_the_end_for_ever(
    serving: Serving, slow: Any
) -> None:
    slow.may_end.set()
    limits = WorkerLimits(last_send_seconds=0.01)
    async with serving(provider_of(execute=slow), limits=limits, capacity_bytes=300) as bench:
        peer = bench.peer
        await peer.open()
        await peer.ask("1", "execute", execute())
        await slow.started.wait()
        await peer.ask("2", "execute", execute("quick"))
        await peer.ask("3", "x" * 90)
        await peer.ask("4", "x" * 90)
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


async def test_an_end_before_the_initialization_still_closes_the_provider_once(
    serving: Serving,
) -> None:
    async with serving(provider_of()) as bench:
        await bench.peer.transport.close_sending()
        await bench.served.wait()
    assert bench.provider.notes == ["close"]


async def test_tasks_of_the_connection_outlive_requests_and_end_before_the_close(
    serving: Serving,
) -> None:
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
        await bench.peer.ask("1", "execute", execute())
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


async def test_a_served_connection_that_is_cancelled_drains_and_closes_too(slow: Any) -> None:
    slow.may_end.set()
    peer, worker_side = memory_pair()
    provider = provider_of(execute=slow)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: serve(worker_side, provider, token=TOKEN))
            hand = ScriptedHost(peer)
            await hand.open()
            await hand.ask("1", "execute", execute("quick"))
            await hand.hear()
            await hand.ask("2", "execute", execute())
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
            await ScriptedHost(peer).ask("0", "initialize", BINDING)
            await started.wait()
            tasks.cancel_scope.cancel()
    assert pin.token is None
