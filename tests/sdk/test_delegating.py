"""Delegation: one peer, lazily, for the same binding; what passes through, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psutil
import pytest

from moorage.errors import ConfigError, LocalProtocolViolation, ShutdownIncomplete
from moorage.protocol.processes import ProcessEvent, StartRequest
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult
from moorage.sdk.attaching import AttachedPeerV4
from moorage.sdk.backend import ExecutionBackendV4, ExecutionContextV4, ExecutionProcessV4
from moorage.sdk.delegating import delegate_execution_backend_v4
from moorage.sdk.peer import PeerLimits
from moorage.sdk.running import run_execution_backend_v4
from moorage.testing.peers import ScriptedHost, ScriptedWorker
from moorage.testing.playbook import BINDING
from moorage.transports.memory import MemoryTransport, memory_pair

Attach = Callable[..., AttachedPeerV4]
Record = Callable[[str], dict[str, Any]]
Serve = Callable[..., AbstractAsyncContextManager[Any]]
Scene = Callable[..., AbstractAsyncContextManager[tuple[ScriptedHost, ScriptedWorker]]]

FULL = msgspec.structs.replace(
    BINDING,
    identity="moorage-1",
    environment={"CI": "1"},
    require_existing_workspace=True,
    remove_workspace_on_exit=True,
)


def execute(name: str = "read_file") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name=name), actor="agent", permission_mode="read_only")


async def nothing(*_: Any) -> None:
    """Take anything."""


@pytest.fixture
def scene(attach: Attach, serve: Serve) -> Scene:
    """Serve a delegating backend between a hand-written host and a hand-written peer."""

    @asynccontextmanager
    async def make(
        *capabilities: str, is_open: bool = True, **options: Any
    ) -> AsyncIterator[tuple[ScriptedHost, ScriptedWorker]]:
        near, far = memory_pair()
        peer = ScriptedWorker(far)
        backend = delegate_execution_backend_v4(
            transport=attach(near), capabilities=capabilities, **options
        )
        async with serve(backend) as bench:
            if is_open:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(peer.accept, capabilities)
                    assert "data" in await bench.host.open(FULL)
            yield bench.host, peer

    return make


# ---------------------------------------------------------------- opening


async def test_the_peer_gets_the_complete_binding_and_a_token_of_its_own(scene: Scene) -> None:
    async with scene("process.start.v1", is_open=False) as (host, peer):
        await host.ask("0", "initialize", FULL)
        asked = await peer.hear()
        assert asked["data"] == msgspec.to_builtins(FULL)
        assert len(asked["token"]) == 64
        await peer.say(
            id=asked["id"],
            data={"version": 4, "root": FULL.root, "capabilities": ["process.start.v1", "more.v1"]},
        )
        reply = await host.hear()
        assert reply["data"]["capabilities"] == ["process.start.v1"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"version": 3, "root": "/workspace", "capabilities": ["process.start.v1"]}, "protocol 3"),
        ({"version": 4, "root": "/other", "capabilities": ["process.start.v1"]}, "'/other'"),
        ({"version": 4, "root": "/workspace"}, "does not offer process.start.v1"),
    ],
)
async def test_a_peer_of_another_version_or_root_or_without_a_capability_fails_the_initialization(
    scene: Scene, answer: dict[str, Any], told: str
) -> None:
    async with scene("process.start.v1", is_open=False) as (host, peer):
        await host.ask("0", "initialize", FULL)
        await peer.say(id=(await peer.hear())["id"], data=answer)
        failed = await host.hear()
        assert failed["error"].startswith("protocol_mismatch: ")
        assert told in failed["error"]
        # The peer is let go of at once, while the host has not gone.
        with pytest.raises(EOFError):
            await peer.hear()
        await host.ask("1", "execute", execute())
        assert "open a new connection" in (await host.hear())["error"]


async def test_a_peer_that_refuses_the_binding_fails_the_initialization_with_its_words(
    scene: Scene,
) -> None:
    async with scene(is_open=False) as (host, peer):
        await host.ask("0", "initialize", FULL)
        await peer.say(id=(await peer.hear())["id"], error="retained workspace unavailable")
        assert "retained workspace unavailable" in (await host.hear())["error"]


def marking(file: Path) -> list[str]:
    """Return a peer's command that leaves a mark, and serves nothing."""
    return [sys.executable, "-c", f"open({str(file)!r}, 'a').write('started '); input()"]


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def test_nothing_is_started_before_the_host_initializes_and_a_failed_peer_only_once(
    serve: Serve, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    backend = delegate_execution_backend_v4(command=marking(mark))
    async with serve(backend) as bench:
        await bench.host.ask("1", "execute", execute())
        await bench.host.hear()
        assert text_of(mark) == ""
        failed = await bench.host.open()
        assert "exited with 0" in failed["error"]
        await bench.host.open()
    assert text_of(mark) == "started "


async def test_a_missing_program_fails_the_initialization(serve: Serve) -> None:
    async with serve(delegate_execution_backend_v4(command=["/nowhere/peer"])) as bench:
        assert "cannot start '/nowhere/peer'" in (await bench.host.open())["error"]


async def test_a_backend_that_was_served_once_opens_no_second_peer(
    attach: Attach, serve: Serve
) -> None:
    near, far = memory_pair()
    backend = delegate_execution_backend_v4(transport=attach(near))
    async with serve(backend) as bench, anyio.create_task_group() as tasks:
        tasks.start_soon(ScriptedWorker(far).accept)
        await bench.host.open()
    async with serve(backend) as bench:
        assert "never replaced" in (await bench.host.open())["error"]


# ---------------------------------------------------------------- passing through


async def test_requests_replies_and_errors_pass_unchanged(scene: Scene) -> None:
    async with scene() as (host, peer):
        await host.ask("7", "execute", execute())
        asked = await peer.hear()
        assert (asked["method"], asked["data"]) == ("execute", msgspec.to_builtins(execute()))
        await peer.say(id=asked["id"], data={"content": [{"type": "text", "text": "hello"}]})
        reply = await host.hear()
        assert (reply["id"], reply["data"]["content"][0]["text"]) == ("7", "hello")
        await host.ask("8", "execute", execute())
        await peer.say(id=(await peer.hear())["id"], error="refused/read_only: not here.")
        assert (await host.hear())["error"] == "refused/read_only: not here."


async def test_nested_calls_reach_the_outer_request_that_they_belong_to(scene: Scene) -> None:
    async with scene() as (host, peer):
        await host.ask("7", "execute", execute())
        first = await peer.hear()
        await host.ask("8", "execute", execute())
        second = await peer.hear()
        for callback_id, parent in (("a", second), ("b", first)):
            await peer.say(
                id=callback_id, method="tool", parent_id=parent["id"], data={"name": "grep"}
            )
        calls = [await host.hear(), await host.hear()]
        assert [call["parent_id"] for call in calls] == ["8", "7"]
        answer = {"id": calls[0]["id"], "data": ToolResult(meta={"for": "8"})}
        await host.ask(calls[0]["id"], "callback", answer)
        answered = await peer.hear()
        assert (answered["method"], answered["id"]) == ("callback", "a")
        assert answered["data"]["data"]["meta"] == {"for": "8"}
        await peer.transport.aclose()


async def test_process_events_pass_and_lost_ones_leave_a_gap(
    a_record: Record, scene: Scene
) -> None:
    async with scene() as (host, peer):
        event = {"Type": "started", "Cause": "", "Process": a_record("mine")}
        await peer.say(id="", method="process", data=event, sequence=1)
        await peer.say(id="", method="process", data=event, sequence=3)
        told = [await host.hear(), await host.hear()]
        assert told[0]["data"]["Process"]["operation_id"] == "mine"
        assert [each["method"] for each in told] == ["process", "process"]
        assert told[1]["sequence"] == 3


async def test_more_events_than_can_wait_are_dropped_and_leave_a_gap(
    a_record: Record, scene: Scene
) -> None:
    async with scene(limits=PeerLimits(max_unsent_events=1)) as (host, peer):
        event = {"Type": "started", "Cause": "", "Process": a_record("mine")}
        frame = msgspec.json.encode({"method": "process", "data": event}) + b"\n"
        await peer.transport.send(frame * 2)
        assert (await host.hear())["method"] == "process"
        await anyio.wait_all_tasks_blocked()
        await peer.transport.send(frame)
        assert (await host.hear())["sequence"] > 2


async def test_a_peers_own_sdk_backend_serves_through_two_layers(
    attach: Attach, a_record: Record, serve: Serve
) -> None:
    async def start(request: StartRequest, context: ExecutionContextV4) -> dict[str, Any]:
        made = a_record(request.operation_id)
        process = msgspec.convert(made, ExecutionProcessV4)
        await context.emit_process(ProcessEvent(type="started", process=process))
        return made

    near, far = memory_pair()
    inner = ExecutionBackendV4(
        initialize=nothing,
        methods={"process/start": start, "process/list": nothing},
        close=nothing,
        capabilities=("process.start.v1",),
    )
    outer = delegate_execution_backend_v4(transport=attach(near), capabilities=["process.start.v1"])
    async with anyio.create_task_group() as tasks, serve(outer) as bench:
        tasks.start_soon(partial(run_execution_backend_v4, inner, transport=far))
        await bench.host.open()
        await bench.host.ask(
            "1", "process/start", StartRequest(operation_id="mine", command="x", actor="a")
        )
        heard = [await bench.host.hear(), await bench.host.hear()]
        assert {each.get("method", "reply") for each in heard} == {"process", "reply"}


def test_a_part_that_is_not_delegated_is_not_offered_and_neither_are_processes_without_it(
    attach: Attach,
) -> None:
    near, _ = memory_pair()
    peer = delegate_execution_backend_v4(transport=attach(near))
    assert "process/start" not in peer.methods
    assert "file/read" not in peer.methods
    files_elsewhere = {"execute": nothing}
    changed = msgspec.structs.replace(peer, methods=files_elsewhere)
    assert set(changed.methods) == {"execute"}
    with pytest.raises(LocalProtocolViolation, match="process/start"):
        msgspec.structs.replace(
            delegate_execution_backend_v4(
                transport=attach(near), capabilities=["process.start.v1"]
            ),
            methods=files_elsewhere,
        )


async def test_files_kept_elsewhere_expose_no_processes_of_the_peer(
    attach: Attach, serve: Serve
) -> None:
    near, far = memory_pair()
    peer = delegate_execution_backend_v4(transport=attach(near))
    backend = msgspec.structs.replace(peer, methods={"execute": _in_memory})
    async with serve(backend) as bench, anyio.create_task_group() as tasks:
        tasks.start_soon(ScriptedWorker(far).accept)
        assert "capabilities" not in (await bench.host.open())["data"]
        for request_id, method in (("1", "process/list"), ("2", "process/start")):
            await bench.host.ask(request_id, method)
            assert f"no method '{method}'" in (await bench.host.hear())["error"]
        await bench.host.ask("3", "execute", execute())
        assert (await bench.host.hear())["data"]["meta"] == {"kept": "in memory"}


async def _in_memory(*_: Any) -> ToolResult:
    return ToolResult(meta={"kept": "in memory"})


# ---------------------------------------------------------------- cancellation and loss


async def test_a_cancelled_call_is_cancelled_at_the_peer_and_answered_when_that_has_ended(
    scene: Scene,
) -> None:
    async with scene() as (host, peer):
        await host.ask("7", "execute", execute())
        asked = await peer.hear()
        await host.ask("7", "cancel")
        cancelled = await peer.hear()
        assert (cancelled["method"], cancelled["id"]) == ("cancel", asked["id"])
        await host.ask("8", "execute", execute())
        other = await peer.hear()
        await peer.say(id=other["id"], data={})
        assert (await host.hear())["id"] == "8"
        await peer.say(id=asked["id"], error="cancelled: it has ended.")
        ended = await host.hear()
        assert ended["id"] == "7"
        assert ended["error"].startswith("cancelled: ")


async def test_a_peer_that_does_not_end_a_cancelled_call_is_closed_while_the_host_stays(
    scene: Scene,
) -> None:
    assert PeerLimits().drain_seconds == 35
    async with scene(limits=PeerLimits(drain_seconds=0.01)) as (host, peer):
        await host.ask("7", "execute", execute())
        await peer.hear()
        await host.ask("7", "cancel")
        assert (await host.hear())["error"].startswith("cancelled: ")
        assert (await peer.hear())["method"] == "cancel"
        with pytest.raises(EOFError):
            await peer.hear()
        await host.ask("8", "execute", execute())
        assert "did not end within 0.01 s" in (await host.hear())["error"]


async def test_a_cancelled_initialization_ends_at_the_peer_too(scene: Scene) -> None:
    async with scene(is_open=False, limits=PeerLimits(drain_seconds=0.01)) as (host, peer):
        await host.ask("0", "initialize", FULL)
        await peer.hear()
        await host.ask("0", "cancel")
        assert (await peer.hear())["method"] == "cancel"
        assert (await host.hear())["error"].startswith("cancelled: ")


async def test_a_peer_that_breaks_is_closed_at_once_and_never_asked_again(
    attach: Attach, serve: Serve
) -> None:
    closed = anyio.Event()
    closes = []
    near, far = memory_pair()

    async def close() -> None:
        closes.append("close")
        await near.aclose()
        closed.set()

    peer = ScriptedWorker(far)
    async with serve(delegate_execution_backend_v4(transport=attach(near, close))) as bench:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.accept)
            await bench.host.open()
        await bench.host.ask("7", "execute", execute())
        await peer.hear()
        await far.aclose()
        assert (await bench.host.hear())["error"].startswith("outcome_unknown: ")
        await closed.wait()
        assert not bench.served.is_set()
        await bench.host.ask("8", "execute", execute())
        assert "nothing was sent" in (await bench.host.hear())["error"]
    assert closes == ["close"]


async def test_garbage_of_a_peer_ends_it_like_a_break(scene: Scene) -> None:
    async with scene() as (host, peer):
        await host.ask("7", "execute", execute())
        await peer.hear()
        await peer.transport.send(b"Segmentation fault\n")
        assert "malformed frame" in (await host.hear())["error"]


# ---------------------------------------------------------------- the end


STUBBORN = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    data = {"version": 4, "root": asked["data"]["root"]}
    print(json.dumps({"id": asked["id"], "data": data}), flush=True)
    print(sys.argv[1:], file=sys.stderr, flush=True)
if "stay" in sys.argv:
    time.sleep(600)
"""


async def test_a_peer_that_ignores_the_end_of_input_is_killed_after_its_grace_and_reported() -> (
    None
):
    command = [sys.executable, "-c", STUBBORN, "stay"]
    before = children()
    host_side, worker_side = memory_pair()
    backend = delegate_execution_backend_v4(command=command, shutdown_grace_ms=50)
    host = ScriptedHost(host_side)
    with anyio.fail_after(5), pytest.raises(ShutdownIncomplete, match=r"0\.05 s"):
        await _serve_once(backend, host, worker_side)
    assert children() <= before


async def test_a_peer_that_ends_with_its_input_is_awaited() -> None:
    host_side, worker_side = memory_pair()
    backend = delegate_execution_backend_v4(command=[sys.executable, "-c", STUBBORN])
    with anyio.fail_after(5):
        await _serve_once(backend, ScriptedHost(host_side), worker_side)


async def _serve_once(
    backend: ExecutionBackendV4, host: ScriptedHost, worker_side: MemoryTransport
) -> None:
    async def ask() -> None:
        assert "data" in await host.open()
        await host.transport.close_sending()

    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        try:
            await run_execution_backend_v4(backend, transport=worker_side)
        except ShutdownIncomplete as error:
            failure = error
    if failure is not None:
        raise failure


async def test_an_attached_close_that_fails_is_reported_and_not_fatal_before_the_end(
    attach: Attach,
) -> None:
    near, far = memory_pair()
    host_side, worker_side = memory_pair()

    async def close() -> None:
        await near.aclose()
        raise OSError("the tunnel would not close")

    backend = delegate_execution_backend_v4(transport=attach(near, close))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ScriptedWorker(far).accept)
            with pytest.raises(ShutdownIncomplete, match="the tunnel would not close"):
                await _serve_once(backend, ScriptedHost(host_side), worker_side)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


async def test_the_peers_variables_are_those_of_the_adapter_or_exactly_those_given(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OF_THE_ADAPTER", "yes")
    told = tmp_path / "told"
    program = f"import os; open({str(told)!r}, 'w').write(repr(sorted(os.environ)))"
    for env, names in ((None, sorted({*os.environ})), ({"ONLY": "1"}, ["ONLY"])):
        command = [sys.executable, "-S", "-c", program]
        async with serve(delegate_execution_backend_v4(command=command, env=env)) as bench:
            await bench.host.open()
        seen = set(eval(text_of(told)))  # noqa: S307 - written a line ago
        assert seen - {"LC_CTYPE"} == set(names) - {"LC_CTYPE"}


@pytest.mark.parametrize("grace", [0, -1, 2_147_483_648, 1.5, "7", True])
def test_a_grace_that_is_none_is_refused_by_name(grace: Any) -> None:
    with pytest.raises(ConfigError, match=r"^shutdown_grace_ms: "):
        delegate_execution_backend_v4(command=["peer"], shutdown_grace_ms=grace)


@pytest.mark.parametrize("grace", [1, 90_000, 2_147_483_647])
def test_a_grace_within_its_range_is_taken(grace: int) -> None:
    assert delegate_execution_backend_v4(command=["peer"], shutdown_grace_ms=grace).methods


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"shutdown_grace_ms": 5}, "shutdown_grace_ms"),
        ({"command": ["peer"]}, "transport"),
        ({"env": {}}, "transport"),
    ],
)
def test_an_attached_peer_takes_nothing_that_belongs_to_a_started_one(
    attach: Attach, options: dict[str, Any], path: str
) -> None:
    near, _ = memory_pair()
    with pytest.raises(ConfigError) as caught:
        delegate_execution_backend_v4(transport=attach(near), **options)
    assert caught.value.path == path


@pytest.mark.parametrize("command", [(), "peer", [" "]])
def test_without_a_peer_none_is_found_or_chosen(command: Any) -> None:
    with pytest.raises(ConfigError, match=r"^command: "):
        delegate_execution_backend_v4(command=command)
