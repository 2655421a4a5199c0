"""A provider made of given handlers, and both live ends of a connection joined in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
import msgspec

from moorage.connection.host_end import HostConnection
from moorage.connection.provider import Handler, RequestContext
from moorage.connection.worker_end import WorkerLimits, serve
from moorage.protocol.binding import Binding
from moorage.protocol.secret import Secret
from moorage.testing.playbook import TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair


class FakeProvider:
    """Serves the handlers that it is given and notes what happens to it."""

    def __init__(
        self, methods: Mapping[str, Handler], capabilities: frozenset[str] = frozenset()
    ) -> None:
        """Serve ``methods`` by their wire names."""
        self.methods = methods
        self.capabilities = capabilities
        self.notes: list[str] = []
        self.on_initialize: Callable[[RequestContext], Awaitable[None]] | None = None
        self.on_close: Callable[[], Awaitable[None]] | None = None

    async def initialize(self, binding: Binding, context: RequestContext) -> str:
        """Take the root as it is, after ``on_initialize``."""
        self.notes.append("initialize")
        if self.on_initialize is not None:
            await self.on_initialize(context)
        return binding.root

    async def close(self) -> None:
        """Note the close, then do ``on_close``."""
        self.notes.append("close")
        if self.on_close is not None:
            await self.on_close()


class Pair(msgspec.Struct, frozen=True):
    """Both ends of a connection and the transports between them."""

    host: HostConnection
    host_side: MemoryTransport
    worker_side: MemoryTransport
    provider: FakeProvider
    served: anyio.Event
    """Set when the worker's end has ended."""


@asynccontextmanager
async def joined(
    provider: FakeProvider,
    connect: Callable[[MemoryTransport], HostConnection] | None = None,
    *,
    token: Secret = TOKEN,
    limits: WorkerLimits | None = None,
    capacity_bytes: int = 64 * 1024,
) -> AsyncIterator[Pair]:
    """Serve ``provider`` and connect a host to it; leaving closes the host's end first."""
    host_side, worker_side = memory_pair(capacity_bytes)
    host = connect(host_side) if connect else HostConnection(host_side, token)
    served = anyio.Event()

    async def serve_to_the_end() -> None:
        try:
            await serve(worker_side, provider, token=token, limits=limits)
        finally:
            served.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_to_the_end)
        async with host:
            yield Pair(host, host_side, worker_side, provider, served)
        await served.wait()
