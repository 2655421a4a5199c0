"""Conversations about what a worker admits and a host may ask."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from moorage.errors import (
    InvalidArguments,
    LocalProtocolViolation,
    ProtocolMismatch,
    Refused,
    UnknownTool,
    WorkerFailure,
)
from moorage.protocol.binding import BYTES, PROCESS_START
from moorage.protocol.files import FileReadRequest
from moorage.protocol.machines.events import (
    ReplyArrived,
    RequestArrived,
)
from moorage.protocol.machines.host_side import HostWireLimits
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.methods import SERVED_METHODS
from moorage.protocol.processes import ProcessRecord, StartRequest
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS
from moorage.testing.playbook import TOKEN, Playbook, Stage

Scene = Callable[..., Playbook]


def execute(name: str = "read_file", arguments: str = "{}") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name=name, arguments=arguments), actor="agent")


def saying(text: str) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=text),))


def frame(**fields: object) -> bytes:
    return msgspec.json.encode({"token": TOKEN.reveal(), **fields}) + b"\n"


# ---------------------------------------------------------------- admission


def test_a_duplicate_id_is_answered_with_an_empty_id_and_the_first_request_completes(
    book: Playbook,
) -> None:
    book.open()
    request_id = book.ask("execute", execute())
    again = frame(id=request_id, method="execute", data={"call": {"name": "x"}, "actor": "a"})
    book.host_says(again)
    assert book.said("worker")[-1]["id"] == ""
    assert f"request '{request_id}' is still running" in book.said("worker")[-1]["error"]
    assert len(book.at_worker()) == 1
    assert book.at_host() == []
    book.reply(request_id, saying("the first"))
    assert book.at_host() == [ReplyArrived(request_id, saying("the first"))]


def test_an_id_may_be_used_again_after_its_terminal_reply(book: Playbook) -> None:
    book.open()
    again = frame(id="7", method="process/list")
    for _ in range(2):
        book.host_says(again)
        assert book.at_worker() == [RequestArrived("7", "process/list", None)]
        book.reply("7", ())


@pytest.mark.parametrize("request_id", ["", "x" * 257])
def test_an_empty_or_endless_id_is_an_error_and_nothing_runs(
    book: Playbook, request_id: str
) -> None:
    book.open()
    book.host_says(frame(id=request_id, method="process/list"))
    assert book.at_worker() == []
    reply = book.said("worker")[-1]
    assert reply["id"] == ""
    assert "needs an id of 1 to 256 characters" in reply["error"]


def test_more_requests_at_once_than_the_worker_holds_are_refused(scene: Scene) -> None:
    book = scene(worker_limits=WorkerWireLimits(max_in_flight=1))
    book.open()
    book.ask("execute", execute())
    refused = book.ask("execute", execute())
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert reply.request_id == refused
    assert isinstance(reply.error, Refused)
    assert reply.error.reason == "busy"


def test_a_host_does_not_ask_more_at_once_than_it_holds(scene: Scene) -> None:
    book = scene(host_limits=HostWireLimits(max_in_flight=1))
    book.open()
    book.ask("execute", execute())
    with pytest.raises(LocalProtocolViolation, match="1 requests are in flight"):
        book.ask("execute", execute())


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("process/recheck", "process/recheck"),
        ("process/", "process/"),
        ("tool", "tool"),
        ("process", "process"),
        ("", ""),
        ("x" * 1000, "x" * 80),
    ],
)
def test_an_unknown_method_is_an_error_that_names_it(
    book: Playbook, method: str, told: str
) -> None:
    book.open()
    book.host_says(frame(id="7", method=method, data={}))
    assert book.at_worker() == []
    reply = book.said("worker")[-1]
    assert reply["id"] == "7"
    assert reply["error"] == f"protocol_mismatch: this worker has no method {told!r}."


def test_a_method_that_the_provider_does_not_serve_is_an_error(scene: Scene) -> None:
    book = scene(methods=frozenset({"execute"}))
    book.open()
    request_id = book.ask("process/list")
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert reply.request_id == request_id
    assert isinstance(reply.error, ProtocolMismatch)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"call": {"name": "x"}}, "actor"),
        ({"call": {"name": "x"}, "actor": ""}, "actor"),
        ({"call": {"name": "x"}, "actor": "a", "permission_mode": "root"}, "permission_mode"),
        ({"call": {"name": 5}, "actor": "a"}, "call.name"),
        ({"call": {"name": "x", "arguments": {}}, "actor": "a"}, "call.arguments"),
        (None, "execute"),
        ([], "execute"),
    ],
)
def test_wrong_data_is_an_error_that_names_the_field_and_the_connection_survives(
    book: Playbook, data: object, told: str
) -> None:
    book.open()
    book.host_says(frame(id="7", method="execute", data=data))
    assert book.at_worker() == []
    reply = book.said("worker")[-1]
    assert reply["error"].startswith("invalid_arguments: execute: ")
    assert told in reply["error"]
    request_id = book.ask("execute", execute())
    assert book.worker.in_flight == (request_id,)


def test_all_nine_workspace_tools_reach_the_tool_layer_and_others_are_refused_by_it(
    book: Playbook,
) -> None:
    assert len(WORKSPACE_TOOLS) == 9
    book.open()
    for name in (*WORKSPACE_TOOLS, "notes", "apply_patch", "process"):
        request_id = book.ask("execute", execute(name))
        [arrived] = book.at_worker()
        assert isinstance(arrived, RequestArrived)
        assert arrived.data.call.name == name
        if name in WORKSPACE_TOOLS:
            book.reply(request_id, saying(name))
            assert book.at_host() == [ReplyArrived(request_id, saying(name))]
        else:
            book.fail(request_id, UnknownTool(f"{name} is not a workspace tool."))
            [refused] = book.at_host()
            assert isinstance(refused, ReplyArrived)
            assert isinstance(refused.error, UnknownTool)


# ---------------------------------------------------------------- capabilities


def test_a_method_whose_capability_was_not_promised_is_not_sent(book: Playbook) -> None:
    book.open()
    spoken = len(book.transcript)
    with pytest.raises(ProtocolMismatch, match=r"moorage\.bytes\.v1.*nothing was sent"):
        book.ask("file/read", FileReadRequest(path="x", actor="a"))
    assert len(book.transcript) == spoken


def test_a_promised_capability_opens_its_methods(scene: Scene) -> None:
    book = scene(capabilities=frozenset({BYTES, PROCESS_START}))
    book.open()
    assert book.host.capabilities == {BYTES, PROCESS_START}
    book.ask("file/read", FileReadRequest(path="x", actor="a"))
    assert len(book.at_worker()) == 1


@pytest.mark.parametrize(
    ("capability", "missing"), [(BYTES, "input/write"), (PROCESS_START, "process/list")]
)
def test_a_capability_without_its_methods_is_refused_at_construction(
    capability: str, missing: str
) -> None:
    stage = Stage(methods=SERVED_METHODS - {missing}, capabilities=frozenset({capability}))
    with pytest.raises(LocalProtocolViolation, match=missing):
        Playbook(stage)


@pytest.mark.parametrize("method", ["cancel", "tool", "process/recheck"])
def test_a_method_that_no_provider_serves_is_refused_at_construction(method: str) -> None:
    with pytest.raises(LocalProtocolViolation, match=method):
        Playbook(Stage(methods=frozenset({method})))


@pytest.mark.parametrize("method", ["initialize", "cancel", "tool", "nothing"])
def test_a_host_asks_only_for_methods_of_the_table(book: Playbook, method: str) -> None:
    book.open()
    with pytest.raises(LocalProtocolViolation, match=method):
        book.ask(method)


def test_a_start_reply_with_another_operation_becomes_an_error(scene: Scene) -> None:
    book = scene(capabilities=frozenset({PROCESS_START}))
    book.open()
    start = StartRequest(operation_id="op-1", command="sleep 5", actor="agent")
    record = ProcessRecord(
        id="proc-1",
        owner_kind="main_agent",
        owner_id="agent",
        lifecycle="session",
        status="running",
        pid=1,
        pgid=1,
        log_path="/l",
        command="sleep 5",
        cwd="/w",
        started_at="2026-01-01T00:00:00Z",
        updated_at="2026-01-01T00:00:00Z",
        operation_id="op-1",
    )
    right, wrong = book.ask("process/start", start), book.ask("process/start", start)
    book.reply(right, record)
    book.reply(wrong, msgspec.structs.replace(record, operation_id="op-2"))
    accepted, refused = book.at_host()
    assert accepted == ReplyArrived(right, record)
    assert isinstance(refused, ReplyArrived)
    assert isinstance(refused.error, WorkerFailure)
    assert "'op-2' instead of 'op-1'" in str(refused.error)


def test_arguments_that_the_host_cannot_encode_are_not_sent(book: Playbook) -> None:
    book.open()
    spoken = len(book.transcript)
    with pytest.raises(LocalProtocolViolation, match="cannot be encoded"):
        book.ask("execute", {"call": object()})
    assert len(book.transcript) == spoken
    assert book.host.in_flight == ()


def test_invalid_arguments_keep_their_class_on_the_way(book: Playbook) -> None:
    book.open()
    book.fail(book.ask("execute", execute()), InvalidArguments("path: expected text."))
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert type(reply.error) is InvalidArguments
