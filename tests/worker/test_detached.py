"""A worker that stays: many hosts and one provider, what they share, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection
from moorage.connection.provider import RequestContext
from moorage.errors import (
    ConfigError,
    ConnectionLost,
    ExecutionError,
    InvalidArguments,
    ProvisionError,
    Refused,
    RequestCancelled,
)
from moorage.protocol.binding import Binding
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.protocol.secret import Secret
from moorage.protocol.tool_calls import ExecuteRequest, ToolResult
from moorage.testing.asking import Asking, execute, saying
from moorage.testing.fakes import FakeProvider
from moorage.testing.peers import ScriptedHost
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports import private_sockets, standing_lock
from moorage.transports.private_sockets import connect
from moorage.transports.unix_socket import UnixSocketTransport
from moorage.worker.staying.detached import READY, SOCKET, DetachedLimits, DetachedWorker

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
        log_path="/log",
        command="sleep 1",
        cwd="/",
        started_at="2026-01-01T00:00:00Z",
        updated_at="2026-01-01T00:00:00Z",
    ),
)


class Stage:
    """One worker in this process, and the hosts that come to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.provider = FakeProvider({"execute": self.execute})
        self.limits = DetachedLimits(
            idle_seconds=30.0, predecessor_seconds=0.1, retry_seconds=0.001, max_connections=3
        )
        self.is_idle = True
        self.said = b""
        self.failure: Exception | None = None
        self.ended = anyio.Event()
        self.slow_started = anyio.Event()

    async def execute(self, request: ExecuteRequest, context: RequestContext) -> ToolResult:
        match request.call.arguments:
            case "slow":
                self.slow_started.set()
                await anyio.sleep_forever()
            case "tell":
                await context.emit_process(EVENT)
            case "later":
                context.lifetime.start_soon(self.tell_later, context)
            case _:
                pass
        return saying(f"{context.request_id}: {request.call.arguments}")

    async def tell_later(self, context: RequestContext) -> None:
        await self.may_tell.wait()
        await context.emit_process(EVENT)

    async def run(self) -> None:
        heard, ready = os.pipe()
        self.may_tell = anyio.Event()
        worker = DetachedWorker(
            self.provider, self.folder, TOKEN, is_idle=lambda: self.is_idle, limits=self.limits
        )
        try:
            await worker.run(ready)
        except ExecutionError as error:
            self.failure = error
        finally:
            self.said = os.read(heard, 1000)
            os.close(heard)
            self.ended.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.run)
                while not (self.folder / SOCKET).exists() and not self.ended.is_set():
                    await anyio.lowlevel.checkpoint()
                yield
                tasks.cancel_scope.cancel()

    def transport(self) -> UnixSocketTransport:
        return UnixSocketTransport(connect(self.folder / SOCKET), grace_seconds=4.0)

    @asynccontextmanager
    async def host(
        self,
        binding: Binding = BINDING,
        token: Secret = TOKEN,
        on_event: Callable[[ProcessEvent, bool], None] | None = None,
    ) -> AsyncIterator[HostConnection]:
        async with HostConnection(self.transport(), token, on_process_event=on_event) as host:
            await host.initialize(binding)
            yield host

    def tell_to_end(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_hosts_come_and_go_and_the_provider_stays(stage: Stage) -> None:
    async with stage.running():
        for _ in range(2):
            async with stage.host() as one, stage.host() as other:
                for host in (one, other):
                    result = await host.request("execute", execute("hi"), ToolResult)
                    assert result.text == "2: hi"
        assert stage.provider.notes == ["initialize"]
        stage.tell_to_end()
        await stage.ended.wait()
    assert (stage.said, stage.failure) == (READY, None)
    assert stage.provider.notes == ["initialize", "close"]
    assert not (stage.folder / SOCKET).exists()
    assert standing_lock.holder(stage.folder) is None


async def test_another_binding_or_token_is_refused_and_harms_nobody(stage: Stage) -> None:
    async with stage.running(), stage.host() as host:
        rotated = msgspec.structs.replace(BINDING, environment={"A": "rotated"})
        with pytest.raises(InvalidArguments, match="environment would"):
            async with stage.host(rotated):
                pass
        with pytest.raises(Refused, match="missing or wrong"):
            async with stage.host(token=Secret("f" * 64)):
                pass
        assert (await host.request("execute", execute("on"), ToolResult)).text.endswith("on")


async def test_hosts_that_come_at_once_join_one_initialization(stage: Stage) -> None:
    may_go_on, roots = anyio.Event(), []

    async def hold(_: RequestContext) -> None:
        await may_go_on.wait()

    stage.provider.on_initialize = hold

    async def open_one(binding: Binding) -> None:
        try:
            async with stage.host(binding) as host:
                await host.request("execute", execute("hi"), ToolResult)
                roots.append("served")
        except InvalidArguments as error:
            roots.append(error.message)

    other = msgspec.structs.replace(BINDING, root="/other")
    async with stage.running():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_one, BINDING)
            while not stage.provider.notes:
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(open_one, BINDING)
            tasks.start_soon(open_one, other)
            await anyio.wait_all_tasks_blocked()
            may_go_on.set()
        assert stage.provider.notes == ["initialize"]
    assert sorted(roots)[:2] == ["served", "served"]
    assert "root would" in sorted(roots)[2]


async def test_a_host_that_leaves_while_it_binds_does_not_cost_the_next_one_its_worker(
    stage: Stage,
) -> None:
    begun, may_go_on = anyio.Event(), anyio.Event()

    async def hold(_: RequestContext) -> None:
        begun.set()
        await may_go_on.wait()

    stage.provider.on_initialize = hold
    async with stage.running():
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                async with stage.host():
                    pass

            tasks.start_soon(leave)
            await begun.wait()
            may_go_on.set()
            tasks.cancel_scope.cancel()
        async with stage.host() as host:
            assert (await host.request("execute", execute("hi"), ToolResult)).text.endswith("hi")
    assert stage.provider.notes == ["initialize", "close"]


async def test_a_worker_that_cannot_be_bound_says_why_and_ends(stage: Stage) -> None:
    async def fail(_: RequestContext) -> None:
        raise ConfigError("the workspace is gone.")

    stage.provider.on_initialize = fail
    async with stage.running():
        with pytest.raises(ConfigError, match="the workspace is gone"):
            async with stage.host():
                pass
        await stage.ended.wait()
    assert stage.provider.notes == ["initialize", "close"]


async def test_a_process_event_reaches_every_host_even_after_the_one_that_caused_it_left(
    stage: Stage,
) -> None:
    heard: list[tuple[str, ProcessEvent]] = []
    second, third = anyio.Event(), anyio.Event()

    def note(who: str) -> Callable[[ProcessEvent, bool], None]:
        def take(event: ProcessEvent, is_gap: bool) -> None:
            assert not is_gap
            heard.append((who, event))
            if len(heard) == 2:
                second.set()
            if len(heard) == 3:
                third.set()

        return take

    async with stage.running(), stage.host(on_event=note("other")):
        async with stage.host(on_event=note("one")) as one:
            await one.request("execute", execute("tell"), ToolResult)
            await second.wait()
            await one.request("execute", execute("later"), ToolResult)
        stage.may_tell.set()
        await third.wait()
    assert sorted(who for who, _ in heard[:2]) == ["one", "other"]
    assert heard[2] == ("other", EVENT)


async def test_a_host_that_does_not_read_loses_events_and_sees_a_gap(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, max_unsent_events=1)
    gaps: list[bool] = []
    seen = anyio.Event()

    def take(_: ProcessEvent, is_gap: bool) -> None:
        gaps.append(is_gap)
        if is_gap:
            seen.set()

    async def tell_many(_: ExecuteRequest, context: RequestContext) -> ToolResult:
        # Not one of them gives the sender a turn.
        for _number in range(5):
            await context.emit_process(EVENT)
        return saying("told")

    stage.provider.methods = {"execute": tell_many}
    async with stage.running(), stage.host(on_event=take) as host:
        await host.request("execute", execute(), ToolResult)
        await host.request("execute", execute(), ToolResult)
        await seen.wait()
    assert len(gaps) < 10


async def test_what_was_asked_is_cancelled_and_answered_when_the_worker_is_told_to_end(
    stage: Stage,
) -> None:
    async with stage.running(), stage.host() as host, anyio.create_task_group() as tasks:
        asking = Asking(host, "slow")
        tasks.start_soon(asking)
        await stage.slow_started.wait()
        stage.tell_to_end()
        await asking.ended.wait()
        assert isinstance(asking.answer, RequestCancelled)
        await stage.ended.wait()
        with pytest.raises(ConnectionLost):
            await host.request("execute", execute("more"), ToolResult)


async def test_it_ends_when_nobody_came_for_long_enough(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, idle_seconds=0.01)
    async with stage.running():
        await stage.ended.wait()
    assert (stage.provider.notes, stage.failure) == (["close"], None)


async def test_neither_a_host_nor_a_running_process_lets_it_end(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, idle_seconds=0.0)
    stage.is_idle = False
    async with stage.running():
        async with stage.host() as host:
            stage.is_idle = True
            await anyio.wait_all_tasks_blocked()
            assert (await host.request("execute", execute("hi"), ToolResult)).text.endswith("hi")
        await stage.ended.wait()
    assert stage.provider.notes == ["initialize", "close"]


async def test_who_does_not_show_the_token_in_time_is_closed(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, initialize_seconds=0.02)
    async with stage.running(), stage.host() as host:
        stranger = ScriptedHost(stage.transport(), Secret("f" * 64))
        assert "token" in (await stranger.open())["error"]
        with pytest.raises(EOFError):
            await stranger.hear()
        await stranger.transport.aclose()
        assert (await host.request("execute", execute("on"), ToolResult)).text.endswith("on")


async def test_more_connections_than_there_may_be_are_closed_at_once(stage: Stage) -> None:
    async with stage.running(), stage.host(), stage.host(), stage.host():
        surplus = stage.transport()
        assert await surplus.receive() == b""
        await surplus.aclose()


async def test_another_user_is_not_served(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage.running():
        stranger = stage.transport()
        with monkeypatch.context() as patched:

            def refuse(_: object) -> None:
                raise PermissionError("another user")

            patched.setattr("moorage.transports.private_sockets.check_peer", refuse)
            assert await stranger.receive() == b""
        await stranger.aclose()
        async with stage.host():
            pass


async def test_a_worker_whose_predecessor_does_not_end_says_so(stage: Stage) -> None:
    script = "import sys, fcntl, os; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
    script += "os.write(1, b'held'); os.read(0, 1)"
    argv = ["python3", "-c", script, str(stage.folder / standing_lock.NAME)]
    async with await anyio.open_process(argv, stderr=None) as predecessor:
        try:
            assert predecessor.stdout is not None
            assert await predecessor.stdout.receive() == b"held"
            async with stage.running():
                await stage.ended.wait()
        finally:
            predecessor.kill()
    assert isinstance(stage.failure, ProvisionError)
    assert stage.said.startswith(b"provision_error: the worker before this one has not ended")
    assert stage.provider.notes == ["close"]


async def test_a_worker_that_cannot_listen_says_so(stage: Stage) -> None:
    (stage.folder / SOCKET).mkdir()
    async with stage.running():
        await stage.ended.wait()
    assert stage.said.startswith(b"provision_error: the worker cannot listen in")


async def test_a_worker_that_nobody_waits_for_ends(stage: Stage) -> None:
    heard, ready = os.pipe()
    os.close(heard)
    worker = DetachedWorker(stage.provider, stage.folder, TOKEN, is_idle=lambda: True)
    with anyio.fail_after(5), pytest.raises(ProvisionError, match="nobody waits"):
        await worker.run(ready)
    assert stage.provider.notes == ["close"]


class Flaky:
    """A listening socket that fails twice before it takes a connection."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._failures = [BlockingIOError(), OSError(errno.EMFILE, "Too many open files")]
        self.fileno = listening.fileno
        self.close = listening.close

    def accept(self) -> tuple[socket.socket, object]:
        if self._failures:
            raise self._failures.pop()
        return self._listening.accept()


async def test_a_connection_that_cannot_be_taken_at_once_is_taken_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listen = private_sockets.listen
    monkeypatch.setattr(private_sockets, "listen", lambda path: Flaky(listen(path)))
    async with stage.running(), stage.host() as host:
        assert (await host.request("execute", execute("hi"), ToolResult)).text.endswith("hi")
    assert caplog.messages == ["a connection cannot be taken: Too many open files"]


async def test_what_waits_for_a_binding_that_fails_is_told_that_the_worker_ends(
    stage: Stage,
) -> None:
    may_fail, told = anyio.Event(), []

    async def fail(_: RequestContext) -> None:
        await may_fail.wait()
        raise ConfigError("the workspace is gone.")

    async def come() -> None:
        try:
            async with stage.host():
                pass
        except ExecutionError as error:
            told.append(str(error))

    stage.provider.on_initialize = fail
    async with stage.running():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(come)
            tasks.start_soon(come)
            await anyio.wait_all_tasks_blocked()
            may_fail.set()
        await stage.ended.wait()
    assert sorted(told) == [
        "the worker ends. Open the session again.",
        "the workspace is gone.",
    ]
