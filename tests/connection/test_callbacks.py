"""Nested tool calls at the host: each lives no longer than the request that made it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import msgspec
import pytest

from moorage.connection.host_end import HostConnection, HostLimits
from moorage.connection.provider import RequestContext
from moorage.errors import ConnectionLost, OutcomeUnknown, Refused, WorkerFailure
from moorage.protocol.programs import Program, RunCodeReply, RunCodeRequest
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.fakes import FakeProvider, Pair
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.memory import MemoryTransport, memory_pair

Join = Callable[..., AbstractAsyncContextManager[Pair]]

PROGRAM = RunCodeRequest(program=Program(code="1"), actor="agent")
CALL = ToolCall(id="1", name="read_file")


def saying(text: str) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=text),))


async def echo(request: ExecuteRequest, context: RequestContext) -> ToolResult:
    return saying(request.call.name)


async def one_call(request: RunCodeRequest, context: RequestContext) -> RunCodeReply:
    result = await context.invoke_tool(CALL)
    return RunCodeReply(value=result.text)


def programs(run: object = one_call) -> FakeProvider:
    return FakeProvider({"execute": echo, "run_code": run})  # type: ignore[dict-item]


async def test_a_program_calls_tools_through_the_host_which_runs_them_as_ordinary_requests(
    join: Join,
) -> None:
    async with join(programs()) as pair:

        async def route_back(call: ToolCall) -> ToolResult:
            return await pair.host.request(
                "execute", ExecuteRequest(call=call, actor="agent"), ToolResult
            )

        reply = await pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=route_back)
    assert reply.value == "read_file"


async def test_many_calls_of_one_program_run_at_once(join: Join) -> None:
    async def five(request: RunCodeRequest, context: RequestContext) -> RunCodeReply:
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(context.invoke_tool, ToolCall(name=str(number)))
        return RunCodeReply()

    async def meet(call: ToolCall) -> ToolResult:
        names.add(call.name)
        if len(names) == 5:
            everyone.set()
        await everyone.wait()
        return ToolResult()

    names: set[str] = set()
    everyone = anyio.Event()
    async with join(programs(five)) as pair:
        await pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=meet)


async def test_the_handler_of_the_connection_serves_requests_without_their_own(
    join: Join,
) -> None:
    async def answer(call: ToolCall) -> ToolResult:
        return saying("from the connection")

    def connect(transport: MemoryTransport) -> HostConnection:
        return HostConnection(transport, TOKEN, on_tool_call=answer)

    async with join(programs(), connect=connect) as pair:
        reply = await pair.host.request("run_code", PROGRAM, RunCodeReply)
    assert reply.value == "from the connection"


async def test_without_a_handler_a_nested_call_is_refused(join: Join) -> None:
    async with join(programs()) as pair:
        with pytest.raises(Refused, match="no nested tool calls") as refused:
            await pair.host.request("run_code", PROGRAM, RunCodeReply)
    assert refused.value.reason == "no_nested_calls"


async def test_what_a_host_tool_raises_is_the_answer_of_its_call(
    join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(call: ToolCall) -> ToolResult:
        raise Refused("not this one.", reason="read_only")

    async def break_down(call: ToolCall) -> ToolResult:
        raise ZeroDivisionError("a fault")

    async with join(programs()) as pair:
        with pytest.raises(Refused) as refused:
            await pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=refuse)
        assert refused.value.reason == "read_only"
        assert caplog.records == []
        with pytest.raises(WorkerFailure, match="failed to run read_file: a fault"):
            await pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=break_down)
        assert caplog.records
        assert pair.host.failure is None


async def test_a_timeout_at_the_worker_cancels_the_running_call_at_the_host(join: Join) -> None:
    async def impatient(request: RunCodeRequest, context: RequestContext) -> RunCodeReply:
        with anyio.move_on_after(0.01):
            await context.invoke_tool(CALL)
        return RunCodeReply(error="deadline exceeded")

    async def slow(call: ToolCall) -> ToolResult:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return ToolResult()

    cancelled = anyio.Event()
    async with join(programs(impatient)) as pair:
        reply = await pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=slow)
        assert reply.error == "deadline exceeded"
        await cancelled.wait()


async def test_a_cancelled_program_takes_its_running_calls_along(join: Join) -> None:
    async def slow(call: ToolCall) -> ToolResult:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return ToolResult()

    started, cancelled = anyio.Event(), anyio.Event()
    async with join(programs()) as pair:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(
                    lambda: pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=slow)
                )
                await started.wait()
                scope.cancel()
        await cancelled.wait()
        assert await pair.host.request(
            "execute", ExecuteRequest(call=CALL, actor="a"), ToolResult
        ) == saying("read_file")


async def test_a_call_after_its_parent_ended_gets_an_error() -> None:
    host_side, worker_side = memory_pair()
    with anyio.fail_after(5):
        async with (
            HostConnection(host_side, TOKEN) as host,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(host.initialize, BINDING)
            await worker_side.receive()
            await worker_side.send(b'{"id":"1","data":{"version":4,"root":"/w"}}\n')
            await anyio.wait_all_tasks_blocked()
            await worker_side.send(
                b'{"id":"c","parent_id":"1","method":"tool","data":{"name":"x"}}\n'
            )
            answer = msgspec.json.decode(await worker_side.receive())
            assert answer["method"] == "callback"
            assert answer["data"]["error"].startswith("refused/parent_ended: ")


async def test_a_worker_that_calls_without_reading_the_answers_is_given_up() -> None:
    host_side, worker_side = memory_pair(capacity_bytes=300)
    limits = HostLimits(max_unsent_frames=3)
    with anyio.fail_after(5):
        async with (
            HostConnection(host_side, TOKEN, limits=limits) as host,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(host.initialize, BINDING)
            await worker_side.receive()
            await worker_side.send(b'{"id":"1","data":{"version":4,"root":"/w"}}\n')
            call = b'{"id":"c","parent_id":"9","method":"tool","data":{"name":"x"}}\n'
            with pytest.raises(anyio.BrokenResourceError):
                await worker_side.send(call * 100)
            assert "without reading" in str(host.failure)


async def test_a_lost_connection_cancels_the_calls_that_run_at_the_host(join: Join) -> None:
    async def slow(call: ToolCall) -> ToolResult:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return ToolResult()

    async def ask(pair: Pair) -> None:
        with pytest.raises(OutcomeUnknown):
            await pair.host.request("run_code", PROGRAM, RunCodeReply, on_tool_call=slow)

    started, cancelled = anyio.Event(), anyio.Event()
    async with join(programs()) as pair:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, pair)
            await started.wait()
            await pair.worker_side.aclose()
        await cancelled.wait()
        with pytest.raises(ConnectionLost):
            await pair.host.request("run_code", PROGRAM, RunCodeReply)
