"""How a host's connection ends: by loss, by failure, by its own close; nothing is replayed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from moorage.connection.host_end import HostConnection, HostLimits
from moorage.connection.provider import RequestContext
from moorage.errors import (
    ConnectionLost,
    OutcomeUnknown,
    ShutdownIncomplete,
)
from moorage.protocol.machines.host_side import HostWireLimits
from moorage.protocol.tool_calls import ExecuteRequest, ToolResult
from moorage.testing.asking import Asking, execute
from moorage.testing.fakes import Pair
from moorage.testing.peers import ScriptedWorker
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair
from moorage.transports.stdio import ChildTransport

Join = Callable[..., AbstractAsyncContextManager[Pair]]
Opposite = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.mark.parametrize("ending", [b"", b"\n", b"nonsense\n", b"x" * 2000])
async def test_what_was_in_flight_when_the_worker_went_is_unknown_and_the_rest_is_lost(
    opposite: Opposite, ending: bytes
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


async def test_a_worker_that_reads_no_more_loses_a_request_of_which_nothing_was_sent(
    opposite: Opposite,
) -> None:
    async with opposite() as scene:
        scene.worker.transport.close_receiving()
        with pytest.raises(ConnectionLost, match=r"nothing was sent of execute.*no longer reads"):
            await scene.host.request("execute", execute(), ToolResult)


async def test_a_worker_that_stops_reading_in_the_middle_of_a_request_leaves_it_unknown(
    opposite: Opposite,
) -> None:
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
    worker = ScriptedWorker(worker_side)
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
