"""A worker in this process: the native provider behind a pair in memory, with a real nursery."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from moorage.confine.nursery import Nursery, start_nursery
from moorage.connection.host_end import HostConnection
from moorage.connection.worker_end import serve
from moorage.policy.permission import PermissionMode
from moorage.process import login
from moorage.process.supervisor import Supervisor
from moorage.protocol.binding import Binding
from moorage.protocol.secret import Secret
from moorage.transports.memory import MemoryTransport, memory_pair
from moorage.worker.native import NativeProvider
from moorage.worker.options import WorkerOptions

Serving = Callable[[WorkerOptions], AbstractAsyncContextManager[MemoryTransport]]
Connect = Callable[[WorkerOptions], AbstractAsyncContextManager[HostConnection]]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def options(tmp_path: Path) -> WorkerOptions:
    return WorkerOptions(
        state=tmp_path / "home" / "worker",
        highest=PermissionMode.STANDARD,
        hidden_paths=(str(tmp_path / "home"),),
    )


@pytest.fixture
def binding(tmp_path: Path) -> Binding:
    return Binding(
        version=4,
        root=str(tmp_path / "work"),
        session="s-1",
        identity="env-1",
        environment={"GIVEN_TOKEN": "a-very-secret-value"},
    )


@pytest.fixture
def serving(nursery: Nursery) -> Serving:
    """Return what serves a native provider over a transport in memory."""

    @asynccontextmanager
    async def served(options: WorkerOptions) -> AsyncIterator[MemoryTransport]:
        ours, theirs = memory_pair()
        base = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "OWN": "1"}
        capture = login.begin(nursery, base, options.state / "login", plan=options.login_plan())
        async with Supervisor(nursery) as supervisor, anyio.create_task_group() as tasks:
            tasks.start_soon(serve, theirs, NativeProvider(options, supervisor, capture))
            yield ours

    return served


@pytest.fixture
def connect(serving: Serving) -> Connect:
    @asynccontextmanager
    async def connected(options: WorkerOptions) -> AsyncIterator[HostConnection]:
        async with (
            serving(options) as transport,
            HostConnection(transport, Secret("t" * 64)) as connection,
        ):
            yield connection

    return connected
