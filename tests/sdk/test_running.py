"""Serving a backend: overlap, cancellation, the order of the end, and what it promises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import msgspec
import pytest

import moorage
from moorage.errors import LocalProtocolViolation, Refused, WorkerFailure
from moorage.protocol.processes import ProcessEvent, StartRequest
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.sdk.backend import ExecutionBackendV4, ExecutionContextV4
from moorage.sdk.running import run_execution_backend_v4
from moorage.testing.playbook import BINDING
from moorage.transports.memory import memory_pair

Record = Callable[[str], dict[str, Any]]
Serve = Callable[..., AbstractAsyncContextManager[Any]]


def execute(arguments: str = "{}") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name="bash", arguments=arguments), actor="agent")


class Recorder:
    """Makes backends of given handlers, and notes what happens to them."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def backend(self, *capabilities: str, **methods: Any) -> ExecutionBackendV4:
        named = {name.replace("__", "/"): handler for name, handler in methods.items()}
        return ExecutionBackendV4(
            initialize=self._initialize,
            methods=named,
            close=self._close,
            capabilities=capabilities,
        )

    async def _initialize(self, binding: Any, context: Any) -> None:
        self.notes.append("initialize")

    async def _close(self) -> None:
        self.notes.append("close")


class Slow:
    """Waits until it is cancelled, and then for the test."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.started = anyio.Event()
        self.is_cleaning_up = anyio.Event()
        self.may_end = anyio.Event()

    async def __call__(self, request: ExecuteRequest, context: ExecutionContextV4) -> ToolResult:
        if request.call.arguments == "quick":
            return ToolResult(content=(ContentPart(type="text", text="quick"),))
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                assert context.signal.cancel_called
                self.is_cleaning_up.set()
                await self.may_end.wait()
            self.notes.append("drained")


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def slow(recorder: Recorder) -> Slow:
    return Slow(recorder.notes)


async def test_handlers_overlap_and_a_cancelled_one_is_answered_after_it_has_ended(
    serve: Serve, recorder: Recorder, slow: Slow
) -> None:
    async with serve(recorder.backend(execute=slow)) as bench:
        await bench.host.open()
        await bench.host.ask("1", "execute", execute())
        await slow.started.wait()
        await bench.host.ask("2", "execute", execute("quick"))
        assert (await bench.host.hear())["id"] == "2"
        await bench.host.ask("1", "cancel")
        await slow.is_cleaning_up.wait()
        await bench.host.ask("3", "execute", execute("quick"))
        assert (await bench.host.hear())["id"] == "3"
        slow.may_end.set()
        ended = await bench.host.hear()
        assert ended["id"] == "1"
        assert ended["error"].startswith("cancelled: ")


@pytest.mark.parametrize("ending", [b"", b"\n", b"no frame\n"])
async def test_every_end_drains_the_handlers_and_then_closes_once(
    serve: Serve, recorder: Recorder, slow: Slow, ending: bytes
) -> None:
    async with serve(recorder.backend(execute=slow)) as bench:
        await bench.host.open()
        await bench.host.ask("1", "execute", execute())
        await slow.started.wait()
        if ending:
            await bench.host.transport.send(ending)
        else:
            await bench.host.transport.close_sending()
        await slow.is_cleaning_up.wait()
        assert recorder.notes == ["initialize"]
        slow.may_end.set()
        await bench.served.wait()
    assert recorder.notes == ["initialize", "drained", "close"]


async def test_broken_output_ends_it_promptly_while_the_input_stays_open(
    serve: Serve, recorder: Recorder, slow: Slow
) -> None:
    slow.may_end.set()
    async with serve(recorder.backend(execute=slow)) as bench:
        await bench.host.open()
        await bench.host.ask("1", "execute", execute())
        await slow.started.wait()
        bench.host.transport.close_receiving()
        await bench.host.ask("2", "execute", execute("quick"))
        await bench.served.wait()
    assert recorder.notes == ["initialize", "drained", "close"]


async def test_a_detached_task_survives_its_request_and_ends_before_the_close(
    a_record: Record, serve: Serve, recorder: Recorder
) -> None:
    async def process() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            recorder.notes.append("process ended")

    async def start(request: StartRequest, context: ExecutionContextV4) -> dict[str, Any]:
        context.lifetime.start_soon(process)
        return a_record(request.operation_id)

    async def listed(_: None, context: ExecutionContextV4) -> list[Any]:
        assert context.binding == BINDING
        return [a_record("mine")]

    backend = recorder.backend("process.start.v1", process__start=start, process__list=listed)
    async with serve(backend) as bench:
        assert (await bench.host.open())["data"]["capabilities"] == ["process.start.v1"]
        request = StartRequest(operation_id="mine", command="x", actor="agent")
        await bench.host.ask("1", "process/start", request)
        assert (await bench.host.hear())["data"]["operation_id"] == "mine"
        await bench.host.ask("2", "process/list")
        assert (await bench.host.hear())["data"][0]["root_thread_id"] == BINDING.session
        assert recorder.notes == ["initialize"]
    assert recorder.notes == ["initialize", "process ended", "close"]


async def nothing(*_: Any) -> None:
    """Take anything."""


@pytest.mark.parametrize("missing", ["process/start", "process/list", "close"])
def test_a_promise_to_start_processes_needs_start_list_and_close_at_construction(
    missing: str,
) -> None:
    methods = dict.fromkeys({"process/start", "process/list"} - {missing}, nothing)
    close = None if missing == "close" else nothing
    with pytest.raises(LocalProtocolViolation, match=missing):
        ExecutionBackendV4(
            initialize=nothing, methods=methods, close=close, capabilities=("process.start.v1",)
        )


def test_a_method_that_the_protocol_does_not_have_is_refused_at_construction() -> None:
    with pytest.raises(LocalProtocolViolation, match="process/dance"):
        ExecutionBackendV4(initialize=nothing, methods={"process/dance": nothing})


async def test_a_start_answered_with_another_operation_is_turned_into_an_error(
    a_record: Record, serve: Serve, recorder: Recorder
) -> None:
    async def start(request: StartRequest, _: ExecutionContextV4) -> dict[str, Any]:
        return a_record("another")

    backend = recorder.backend("process.start.v1", process__start=start, process__list=nothing)
    async with serve(backend) as bench:
        await bench.host.open()
        request = StartRequest(operation_id="mine", command="x", actor="agent")
        await bench.host.ask("1", "process/start", request)
        assert "'another' instead of 'mine'" in (await bench.host.hear())["error"]


async def test_an_answer_that_is_none_of_its_method_is_an_error(
    serve: Serve, recorder: Recorder
) -> None:
    async def broken(*_: Any) -> dict[str, Any]:
        return {"content": 5}

    async with serve(recorder.backend(execute=broken)) as bench:
        await bench.host.open()
        await bench.host.ask("1", "execute", execute())
        assert "the backend's answer is none" in (await bench.host.hear())["error"]


async def test_nothing_runs_before_initialization_and_what_is_missing_is_an_error(
    serve: Serve, recorder: Recorder, slow: Slow
) -> None:
    async with serve(recorder.backend(execute=slow)) as bench:
        await bench.host.ask("1", "execute", execute())
        assert "before a successful initialize" in (await bench.host.hear())["error"]
        await bench.host.open()
        await bench.host.ask("2", "run_code", {})
        assert "no method 'run_code'" in (await bench.host.hear())["error"]
    assert not slow.started.is_set()


async def test_the_backend_may_answer_with_a_root_of_its_own_and_its_failure_is_final(
    serve: Serve, recorder: Recorder
) -> None:
    async def fail(*_: Any) -> str:
        raise Refused("this backend cannot remove workspaces.", reason="policy")

    async def elsewhere(*_: Any) -> str:
        return "/elsewhere"

    async with serve(ExecutionBackendV4(initialize=elsewhere, methods={})) as bench:
        assert (await bench.host.open())["data"]["root"] == "/elsewhere"
    async with serve(ExecutionBackendV4(initialize=fail, methods={"execute": nothing})) as bench:
        assert "cannot remove workspaces" in (await bench.host.open())["error"]
        await bench.host.ask("1", "execute", execute())
        assert "open a new connection" in (await bench.host.hear())["error"]


async def test_tools_are_called_only_while_the_own_request_lives(
    serve: Serve, recorder: Recorder
) -> None:
    contexts: list[ExecutionContextV4] = []

    async def nested(_: ExecuteRequest, context: ExecutionContextV4) -> ToolResult:
        contexts.append(context)
        return await context.invoke_tool(ToolCall(name="read_file"))

    async with serve(recorder.backend(execute=nested)) as bench:
        await bench.host.open()
        await bench.host.ask("1", "execute", execute())
        call = await bench.host.hear()
        assert (call["method"], call["parent_id"]) == ("tool", "1")
        answer = {"id": call["id"], "data": ToolResult(content=(_text("nested"),))}
        await bench.host.ask(call["id"], "callback", answer)
        assert (await bench.host.hear())["data"]["content"][0]["text"] == "nested"
        # The same id is in use again; the request that it named before has ended all the same.
        await bench.host.ask("1", "execute", execute())
        await bench.host.hear()
        with pytest.raises(LocalProtocolViolation, match="has ended"):
            await contexts[0].invoke_tool(ToolCall(name="read_file"))


async def test_process_events_travel_on_the_same_connection_and_a_lost_one_leaves_a_gap(
    a_record: Record, serve: Serve, recorder: Recorder
) -> None:
    async def tell(_: ExecuteRequest, context: ExecutionContextV4) -> ToolResult:
        event = ProcessEvent(type="started", process=_converted(a_record("mine")))
        await context.emit_process(event)
        context.lose_event()
        await context.emit_process(event)
        return ToolResult()

    async with serve(recorder.backend(execute=tell)) as bench:
        await bench.host.open()
        await bench.host.ask("1", "execute", execute())
        first, second = await bench.host.hear(), await bench.host.hear()
        assert set(first["data"]) == {"Type", "Cause", "Process"}
        assert (first["sequence"], second["sequence"]) == (1, 3)


async def test_what_its_close_raises_reaches_the_caller() -> None:
    async def fail() -> None:
        raise WorkerFailure("a process would not end.")

    host_side, worker_side = memory_pair()
    await host_side.close_sending()
    backend = ExecutionBackendV4(initialize=nothing, methods={}, close=fail)
    with pytest.raises(WorkerFailure, match="would not end"), anyio.fail_after(5):
        await run_execution_backend_v4(backend, transport=worker_side)


def test_frames_have_standard_output_to_themselves_whatever_the_program_prints() -> None:
    program = """
import anyio, moorage
async def initialize(binding, context):
    print("this is no frame")
async def close():
    print("nor is this")
backend = moorage.ExecutionBackendV4(initialize=initialize, methods={}, close=close)
anyio.run(moorage.run_execution_backend_v4, backend)
"""
    frame = (
        b'{"token":"%s","id":"1","method":"initialize",'
        b'"data":{"version":4,"root":"/w","session":"s"}}\n' % (b"x" * 32)
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        out, complaints = child.communicate(frame, timeout=20)
    assert child.returncode == 0
    assert out == b'{"id":"1","data":{"version":4,"root":"/w"}}\n'
    assert complaints.splitlines() == [b"this is no frame", b"nor is this"]


def test_the_public_names_are_those_of_the_sdk() -> None:
    assert moorage.ExecutionBackendV4 is ExecutionBackendV4
    assert moorage.ExecutionToolRequestV4 is ExecuteRequest
    assert moorage.ExecutionProcessV4.__name__ == "ProcessRecord"
    assert callable(moorage.delegate_execution_backend_v4)


def _text(text: str) -> ContentPart:
    return ContentPart(type="text", text=text)


def _converted(value: dict[str, Any]) -> Any:
    return msgspec.convert(value, moorage.ExecutionProcessV4)
