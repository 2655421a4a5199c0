"""A backend served in memory to a hand-written host, and the streams of peers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from moorage.sdk.attaching import AttachedPeerV4
from moorage.sdk.backend import ExecutionBackendV4
from moorage.sdk.running import run_execution_backend_v4
from moorage.testing.peers import ScriptedHost
from moorage.testing.playbook import BINDING
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


@pytest.fixture
def attach() -> Callable[..., AttachedPeerV4]:
    """Return what gives a transport the form that authors attach."""
    return attached


@pytest.fixture
def a_record() -> Callable[[str], dict[str, Any]]:
    """Return what makes the record of a process, as plain data."""

    def of(operation_id: str) -> dict[str, Any]:
        texts = ("log_path", "command", "cwd", "started_at", "updated_at", "owner_id")
        return {
            "id": "proc-1",
            "owner_kind": "main_agent",
            "lifecycle": "session",
            "status": "running",
            "operation_id": operation_id,
            "root_thread_id": BINDING.session,
            **dict.fromkeys(("pid", "pgid"), 1),
            **dict.fromkeys(texts, "x"),
        }

    return of
