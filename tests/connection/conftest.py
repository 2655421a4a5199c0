"""Both ends joined in memory, and nothing that waits longer than five seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection
from moorage.connection.provider import Handler, RequestContext
from moorage.connection.worker_end import serve
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolResult
from moorage.testing.fakes import FakeProvider, Pair, joined
from moorage.testing.peers import ScriptedHost, ScriptedWorker
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair

Join = Callable[..., AbstractAsyncContextManager[Pair]]


class Bench(msgspec.Struct):
    """A served provider with a hand-written host."""

    provider: FakeProvider
    peer: ScriptedHost
    worker_side: MemoryTransport
    served: anyio.Event


class Scene(msgspec.Struct):
    """A host connection with a hand-written worker."""

    host: HostConnection
    host_side: MemoryTransport
    worker: ScriptedWorker


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


@pytest.fixture
def slow() -> SlowHandler:
    """Return a handler that takes its time to be cancelled."""
    return SlowHandler()


async def echo(request: ExecuteRequest, context: RequestContext) -> ToolResult:
    text = ContentPart(type="text", text=request.call.arguments)
    return ToolResult(content=(text,))


@pytest.fixture
def join() -> Join:
    """Return a maker of initialized pairs: of a provider, or of an ``execute`` handler."""

    @asynccontextmanager
    async def make(
        served: FakeProvider | Handler = echo, *, is_initialized: bool = True, **options: Any
    ) -> AsyncIterator[Pair]:
        is_provider = isinstance(served, FakeProvider)
        provider = served if is_provider else FakeProvider({"execute": served})
        with anyio.fail_after(5):
            async with joined(provider, **options) as pair:
                if is_initialized:
                    await pair.host.initialize(BINDING)
                yield pair
        assert provider.notes.count("close") == 1

    return make


@pytest.fixture
def serving() -> Callable[..., AbstractAsyncContextManager[Bench]]:
    """Return what serves a provider to a hand-written host."""

    @asynccontextmanager
    async def make(
        provider: FakeProvider, *, capacity_bytes: int = 64 * 1024, **options: Any
    ) -> AsyncIterator[Bench]:
        peer, worker_side = memory_pair(capacity_bytes)
        bench = Bench(provider, ScriptedHost(peer), worker_side, anyio.Event())

        async def run() -> None:
            await serve(worker_side, provider, token=TOKEN, **options)
            bench.served.set()

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                yield bench

    return make


@pytest.fixture
def opposite() -> Callable[..., AbstractAsyncContextManager[Scene]]:
    """Return what connects a host to a hand-written worker."""

    @asynccontextmanager
    async def make(
        *, is_initialized: bool = True, capacity_bytes: int = 64 * 1024, **options: Any
    ) -> AsyncIterator[Scene]:
        host_side, worker_side = memory_pair(capacity_bytes)
        worker = ScriptedWorker(worker_side)
        with anyio.fail_after(5):
            async with HostConnection(host_side, TOKEN, **options) as host:
                if is_initialized:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(worker.accept)
                        await host.initialize(BINDING)
                yield Scene(host, host_side, worker)

    return make
