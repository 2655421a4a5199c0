"""Conversations about nested tool calls."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from moorage.errors import LocalProtocolViolation, Refused, RemoteProtocolViolation
from moorage.protocol.machines.events import CallbackArrived, ReplyArrived, ToolCallArrived
from moorage.protocol.machines.host_side import HostWireLimits
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.programs import Program, RunCodeReply, RunCodeRequest
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.playbook import TOKEN, Playbook

Scene = Callable[..., Playbook]

CALL = ToolCall(id="1", name="read_file", arguments='{"path":"a"}', kind="function")
RESULT = ToolResult(content=(ContentPart(type="text", text="hello"),))
PROGRAM = RunCodeRequest(program=Program(code="1"), actor="agent")


def started(book: Playbook) -> str:
    book.open()
    request_id = book.ask("run_code", PROGRAM)
    book.at_worker()
    return request_id


def test_a_program_calls_a_tool_through_the_host_while_an_execute_runs(book: Playbook) -> None:
    program = started(book)
    callback_id = book.call_tool(program, CALL)
    assert book.at_host() == [ToolCallArrived(callback_id, program, CALL)]
    nested = book.ask("execute", ExecuteRequest(call=CALL, actor="agent"))
    assert len(book.at_worker()) == 1
    book.reply(nested, RESULT)
    assert book.at_host() == [ReplyArrived(nested, RESULT)]
    book.answer(callback_id, RESULT)
    assert book.at_worker() == [CallbackArrived(callback_id, program, RESULT)]
    book.reply(program, RunCodeReply(value=1))
    assert book.at_host() == [ReplyArrived(program, RunCodeReply(value=1))]


def test_an_answer_wraps_a_whole_reply_object_in_a_request(book: Playbook) -> None:
    callback_id = book.call_tool(started(book), CALL)
    book.answer(callback_id, RESULT)
    assert book.said("worker")[-1] == {
        "id": callback_id,
        "parent_id": "2",
        "method": "tool",
        "data": msgspec.to_builtins(CALL),
    }
    assert book.said("host")[-1] == {
        "token": TOKEN.reveal(),
        "id": callback_id,
        "method": "callback",
        "data": {"id": callback_id, "data": {"content": [{"type": "text", "text": "hello"}]}},
    }


def test_a_refused_call_reaches_the_program_with_its_reason(book: Playbook) -> None:
    program = started(book)
    callback_id = book.call_tool(program, CALL)
    book.answer(callback_id, Refused("not allowed.", reason="read_only"))
    [answered] = book.at_worker()
    assert isinstance(answered, CallbackArrived)
    assert answered.parent_id == program
    assert not answered.is_malformed
    assert isinstance(answered.error, Refused)
    assert answered.error.reason == "read_only"


def test_a_result_that_is_too_large_to_answer_with_becomes_an_error(book: Playbook) -> None:
    callback_id = book.call_tool(started(book), CALL)
    book.answer(callback_id, ToolResult(content=RESULT.content * 129))
    [answered] = book.at_worker()
    assert isinstance(answered, CallbackArrived)
    assert "129 parts" in str(answered.error)


def test_a_call_after_its_parent_ended_is_answered_with_an_error(book: Playbook) -> None:
    program = started(book)
    book.reply(program, RunCodeReply())
    with pytest.raises(LocalProtocolViolation, match="has ended"):
        book.call_tool(program, CALL)
    book.worker_says(b'{"id":"late","parent_id":"2","method":"tool","data":{"name":"x"}}\n')
    assert [type(event) for event in book.at_host()] == [ReplyArrived]
    inner = book.said("host")[-1]["data"]
    assert inner["id"] == "late"
    assert inner["error"].startswith("refused/parent_ended: ")


def test_an_answer_that_comes_after_its_parent_ended_is_an_error_that_the_worker_drops(
    book: Playbook,
) -> None:
    program = started(book)
    callback_id = book.call_tool(program, CALL)
    book.reply(program, RunCodeReply())
    book.answer(callback_id, RESULT)
    assert book.at_worker() == []
    assert book.said("host")[-1]["data"]["error"].startswith("refused/parent_ended: ")


def test_a_cancelled_parent_takes_its_calls_along(book: Playbook) -> None:
    program = started(book)
    callback_id = book.call_tool(program, CALL)
    book.cancel(program)
    book.answer(callback_id, RESULT)
    assert "parent_ended" in book.said("host")[-1]["data"]["error"]


def test_a_call_that_the_worker_no_longer_waits_for_is_dropped(book: Playbook) -> None:
    callback_id = book.call_tool(started(book), CALL)
    book.worker.forget_callback(callback_id)
    book.worker.forget_callback(callback_id)
    book.answer(callback_id, RESULT)
    assert book.at_worker() == []


@pytest.mark.parametrize("data", ["null", "7", "[]", '{"error":7}', '{"data":{"content":7}}'])
def test_a_malformed_answer_fails_its_call_and_its_parent_and_nothing_else(
    book: Playbook, data: str
) -> None:
    program = started(book)
    callback_id = book.call_tool(program, CALL)
    line = f'{{"token":"{TOKEN.reveal()}","id":"{callback_id}","method":"callback","data":{data}}}'
    book.host_says(line.encode() + b"\n")
    [answered] = book.at_worker()
    assert isinstance(answered, CallbackArrived)
    assert answered.parent_id == program
    assert answered.is_malformed
    assert isinstance(answered.error, RemoteProtocolViolation)
    book.fail(program, answered.error)
    other = book.ask("process/list")
    book.reply(other, ())
    assert [event.request_id for event in book.at_host() if isinstance(event, ReplyArrived)] == [
        program,
        other,
    ]


def test_no_more_calls_of_one_request_run_at_once_than_both_sides_allow(scene: Scene) -> None:
    book = scene(
        worker_limits=WorkerWireLimits(max_tool_calls_per_request=2),
        host_limits=HostWireLimits(max_tool_calls_per_request=1),
    )
    program = started(book)
    book.call_tool(program, CALL)
    second = book.call_tool(program, CALL)
    refused = [event for event in book.at_worker() if isinstance(event, CallbackArrived)]
    assert [event.callback_id for event in refused] == [second]
    assert isinstance(refused[0].error, Refused)
    third = book.call_tool(program, CALL)
    assert third != second
    book.at_worker()
    strict = scene(worker_limits=WorkerWireLimits(max_tool_calls_per_request=1))
    program = started(strict)
    strict.call_tool(program, CALL)
    with pytest.raises(LocalProtocolViolation, match="waits for 1 tool calls"):
        strict.call_tool(program, CALL)


def test_a_call_that_is_no_tool_call_is_answered_with_an_error(book: Playbook) -> None:
    program = started(book)
    line = f'{{"id":"c","parent_id":"{program}","method":"tool","data":{{"name":7}}}}\n'
    book.worker_says(line.encode())
    assert book.at_host() == []
    assert "malformed tool call" in book.said("host")[-1]["data"]["error"]


@pytest.mark.parametrize("callback_id", ["", "x" * 257])
def test_a_call_with_an_unusable_id_is_dropped(book: Playbook, callback_id: str) -> None:
    program = started(book)
    spoken = len(book.said("host"))
    line = {"id": callback_id, "parent_id": program, "method": "tool", "data": {"name": "x"}}
    book.worker_says(msgspec.json.encode(line) + b"\n")
    assert book.at_host() == []
    assert len(book.said("host")) == spoken


def test_a_second_call_under_a_live_id_is_dropped(book: Playbook) -> None:
    program = started(book)
    callback_id = book.call_tool(program, CALL)
    line = {"id": callback_id, "parent_id": program, "method": "tool", "data": {"name": "x"}}
    book.worker_says(msgspec.json.encode(line) + b"\n")
    assert len(book.at_host()) == 1


def test_a_call_that_is_too_large_is_not_sent(scene: Scene) -> None:
    book = scene(worker_limits=WorkerWireLimits(max_frame_bytes=400))
    program = started(book)
    with pytest.raises(LocalProtocolViolation, match="the tool call"):
        book.call_tool(program, ToolCall(name="x", arguments="y" * 400))
    book.call_tool(program, CALL)
    assert len(book.at_host()) == 1
