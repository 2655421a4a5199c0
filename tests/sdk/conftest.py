"""A backend served in memory to a hand-written host, and the streams of peers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import msgspec
import pytest

from moorage.sdk.attaching import AttachedPeerV4
from moorage.sdk.backend import ExecutionBackendV4
from moorage.sdk.running import run_execution_backend_v4
from moorage.testing.peers import ScriptedHost
from moorage.transports.memory import MemoryTransport, memory_pair


class Bench(msgspec.Struct):
    """A served backend with a hand-written host."""

    host: ScriptedHost
    worker_side: MemoryTransport
    served: anyio.Event


Serve = Callable[..., AbstractAsyncContextManager[Bench]]


@pytest.fixture
def serve() -> Serve:
    """Return what serves a backend; what its close raised comes out at the end."""

    @asynccontextmanager
    async def make(backend: ExecutionBackendV4) -> AsyncIterator[Bench]:
        host_side, worker_side = memory_pair()
        bench = Bench(ScriptedHost(host_side), worker_side, anyio.Event())

        async def run() -> None:
            try:
                await run_execution_backend_v4(backend, transport=worker_side)
            finally:
                bench.served.set()

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                yield bench
                await host_side.close_sending()

    return make


class Written:
    """The stream that a peer reads."""

    def __init__(self, transport: MemoryTransport) -> None:
        self.send = transport.send
        self.aclose = transport.close_sending


class Read:
    """The stream that a peer writes."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport

    async def receive(self, most: int) -> bytes:
        data = await self._transport.receive()
        assert len(data) <= most
        if not data:
            raise anyio.EndOfStream
        return data


def attached(
    transport: MemoryTransport, close: Callable[[], Awaitable[None]] | None = None
) -> AttachedPeerV4:
    """Return a transport in the form that authors attach."""
    streams = {"input": Written(transport), "output": Read(transport)}
    return AttachedPeerV4(**streams, close=close or transport.aclose)
