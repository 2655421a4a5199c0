"""Conversations about framing, ids, order and the terminal reply."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.errors import (
    LocalProtocolViolation,
    RemoteProtocolViolation,
    WorkerFailure,
)
from moorage.protocol.framing import MAX_FRAME_BYTES
from moorage.protocol.machines.events import (
    CancelArrived,
    InputEnded,
    ReplyArrived,
    RequestArrived,
)
from moorage.protocol.machines.host_side import HostWireLimits
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult
from moorage.testing.playbook import TOKEN, Playbook, Stage

Scene = Callable[..., Playbook]


def execute(name: str = "read_file", arguments: str = "{}") -> ExecuteRequest:
    return ExecuteRequest(call=ToolCall(name=name, arguments=arguments), actor="agent")


def saying(text: str) -> ToolResult:
    return ToolResult(content=(ContentPart(type="text", text=text),))


def frame(**fields: object) -> bytes:
    return msgspec.json.encode({"token": TOKEN.reveal(), **fields}) + b"\n"


def test_a_request_and_its_reply_reach_the_other_side_whole(book: Playbook) -> None:
    book.open()
    request = execute(arguments='{"path":"ä.txt"}')
    request_id = book.ask("execute", request)
    assert book.at_worker() == [RequestArrived(request_id, "execute", request)]
    book.reply(request_id, saying("hällo"))
    assert book.at_host() == [ReplyArrived(request_id, saying("hällo"))]
    assert book.host.in_flight == book.worker.in_flight == ()


def test_sixteen_requests_answered_in_reverse_order_reach_the_right_callers(
    book: Playbook,
) -> None:
    book.open()
    ids = [book.ask("execute", execute(arguments=f'{{"n":{n}}}')) for n in range(16)]
    arrived = [event for event in book.at_worker() if isinstance(event, RequestArrived)]
    assert [event.request_id for event in arrived] == ids
    for event in reversed(arrived):
        book.reply(event.request_id, saying(event.data.call.arguments))
    assert book.at_host() == [
        ReplyArrived(ids[n], saying(f'{{"n":{n}}}')) for n in reversed(range(16))
    ]


@given(st.permutations(range(5)), st.sets(st.integers(0, 4)))
def test_any_order_of_replies_and_cancels_gives_each_caller_its_own_answer_or_none(
    order: list[int], cancelled: set[int]
) -> None:
    book = Playbook()
    book.open()
    ids = [book.ask("execute", execute(arguments=str(n))) for n in range(5)]
    for n in order:
        if n in cancelled:
            book.cancel(ids[n])
        book.reply(ids[n], saying(str(n)))
    expected = [ReplyArrived(ids[n], saying(str(n))) for n in order if n not in cancelled]
    assert book.at_host() == expected
    assert book.worker.in_flight == book.host.in_flight == ()
    assert all("error" not in message for message in book.said("worker"))


# ---------------------------------------------------------------- the bound


def test_a_frame_of_exactly_16_mib_is_accepted_in_both_directions() -> None:
    book = Playbook()
    book.open()
    overhead = len(book.host.request("execute", execute(arguments=""))[1])
    request_id = book.ask("execute", execute(arguments="x" * (MAX_FRAME_BYTES - overhead)))
    assert len(book.transcript[-1][1]) == MAX_FRAME_BYTES
    assert len(book.at_worker()) == 1
    wrapping = len(f'{{"id":"{request_id}","data":{{"structured_content":{{"x":""}}}}}}\n')
    padded = "x" * (MAX_FRAME_BYTES - wrapping)
    book.worker_says(
        b'{"id":"%s","data":{"structured_content":{"x":"%s"}}}\n'
        % (request_id.encode(), padded.encode())
    )
    assert len(book.transcript[-1][1]) == MAX_FRAME_BYTES
    assert book.at_host() == [
        ReplyArrived(request_id, ToolResult(structured_content={"x": padded}))
    ]


def test_one_byte_more_than_16_mib_is_not_sent_and_the_connection_survives() -> None:
    book = Playbook()
    book.open()
    spoken = len(book.transcript)
    overhead = len(book.host.request("execute", execute(arguments=""))[1])
    with pytest.raises(LocalProtocolViolation, match="16777217 bytes"):
        book.ask("execute", execute(arguments="x" * (MAX_FRAME_BYTES - overhead + 1)))
    assert len(book.transcript) == spoken
    request_id = book.ask("execute", execute())
    book.reply(request_id, saying("still here"))
    assert book.at_host() == [ReplyArrived(request_id, saying("still here"))]


@pytest.mark.parametrize("speaker", ["host", "worker"])
def test_a_frame_over_the_bound_ends_the_input_without_partial_effects(
    scene: Scene, speaker: str
) -> None:
    limits = {
        "host_limits": HostWireLimits(max_frame_bytes=400),
        "worker_limits": WorkerWireLimits(max_frame_bytes=400),
    }
    book = scene(**limits)
    book.open()
    too_long = frame(id="x", method="execute", data="y" * 400)
    if speaker == "host":
        book.host_says(too_long)
        heard, other = book.at_worker(), book.at_host()
    else:
        book.worker_says(too_long)
        heard, other = book.at_host(), book.at_worker()
    assert [type(event) for event in heard] == [InputEnded]
    assert "more than 400 bytes" in str(heard[0].failure)  # type: ignore[union-attr]
    assert other == []


@pytest.mark.parametrize("piece_bytes", [0, 7])
def test_a_frame_before_one_over_the_bound_still_counts(piece_bytes: int) -> None:
    limits = WorkerWireLimits(max_frame_bytes=400)
    book = Playbook(Stage(worker_limits=limits, piece_bytes=piece_bytes))
    book.open()
    data = {"call": {"name": "x"}, "actor": "a"}
    book.host_says(frame(id="7", method="execute", data=data) + b"y" * 401)
    assert [type(event) for event in book.at_worker()] == [RequestArrived, InputEnded]


def test_a_reply_over_the_bound_becomes_an_error_reply(scene: Scene) -> None:
    book = scene(worker_limits=WorkerWireLimits(max_frame_bytes=1000))
    book.open()
    request_id = book.ask("execute", execute())
    book.reply(request_id, saying("x" * 1000))
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert isinstance(reply.error, WorkerFailure)
    assert "execute was done, but its answer is lost" in str(reply.error)
    next_id = book.ask("execute", execute())
    book.reply(next_id, saying("fits"))
    assert book.at_host() == [ReplyArrived(next_id, saying("fits"))]


def test_a_result_over_the_limits_becomes_an_error_reply(book: Playbook) -> None:
    book.open()
    request_id = book.ask("execute", execute())
    book.reply(request_id, ToolResult(content=(ContentPart(type="text", text="x"),) * 129))
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert "129 parts; the most is 128" in str(reply.error)


# ---------------------------------------------------------------- malformed frames


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"hello\n", b"[]\n", b"{\n", b"\xff\n"])
@pytest.mark.parametrize("speaker", ["host", "worker"])
def test_a_blank_or_non_json_line_ends_the_input_and_nothing_after_it_is_heard(
    scene: Scene, speaker: str, line: bytes
) -> None:
    book = scene()
    book.open()
    request_id = book.ask("execute", execute())
    assert len(book.at_worker()) == 1
    if speaker == "host":
        book.host_says(line + frame(id="after", method="execute", data={}))
        heard = book.at_worker()
        assert book.worker.in_flight == (request_id,)
    else:
        book.worker_says(line + b'{"id":"1","data":{}}\n')
        heard = book.at_host()
        assert book.host.in_flight == (request_id,)
    [ended] = heard
    assert isinstance(ended, InputEnded)
    assert isinstance(ended.failure, RemoteProtocolViolation)


def test_a_frame_before_a_malformed_one_still_counts(book: Playbook) -> None:
    book.open()
    data = {"call": {"name": "x"}, "actor": "a"}
    book.host_says(frame(id="7", method="execute", data=data) + b"nonsense\n")
    assert [type(event) for event in book.at_worker()] == [RequestArrived, InputEnded]


def test_a_last_frame_without_a_newline_still_counts(book: Playbook) -> None:
    book.open()
    data = {"call": {"name": "x"}, "actor": "a"}
    book.host_says(frame(id="7", method="execute", data=data)[:-1])
    assert book.at_worker() == []
    book.host_ends()
    assert [type(event) for event in book.at_worker()] == [RequestArrived, InputEnded]
    book.host_ends()
    assert book.at_worker() == []


def test_after_the_end_of_its_input_the_worker_still_owes_and_gives_terminal_replies(
    book: Playbook,
) -> None:
    book.open()
    request_id = book.ask("execute", execute())
    book.host_ends()
    book.reply(request_id, saying("late"))
    assert book.at_host() == [ReplyArrived(request_id, saying("late"))]
    book.worker_ends()
    assert book.at_host() == [InputEnded()]
    with pytest.raises(LocalProtocolViolation, match="has ended"):
        book.ask("execute", execute())


def test_unknown_keys_of_a_peer_and_null_data_are_let_pass(book: Playbook) -> None:
    book.open()
    book.host_says(frame(id="7", method="process/list", data=None, later={"deep": [1]}))
    assert book.at_worker() == [RequestArrived("7", "process/list", None)]
    request_id = book.ask("execute", execute())
    book.worker_says(b'{"id":"%s","data":{"new":1},"more":true}\n' % request_id.encode())
    assert book.at_host() == [ReplyArrived(request_id, ToolResult())]


# ---------------------------------------------------------------- cancellation


def test_a_cancel_names_a_live_request_and_has_no_reply_of_its_own(book: Playbook) -> None:
    book.open()
    request_id = book.ask("execute", execute())
    book.at_worker()
    book.cancel(request_id)
    assert book.at_worker() == [CancelArrived(request_id)]
    assert book.said("host")[-1] == {
        "token": TOKEN.reveal(),
        "id": request_id,
        "method": "cancel",
    }
    assert book.worker.in_flight == (request_id,)
    book.reply(request_id, saying("too late"))
    assert book.at_host() == []
    assert book.worker.in_flight == ()


def test_a_cancel_of_an_unknown_request_is_ignored(book: Playbook) -> None:
    book.open()
    spoken = len(book.said("worker"))
    book.host_says(frame(id="99", method="cancel"))
    assert book.at_worker() == []
    assert len(book.said("worker")) == spoken
    assert book.host.cancel("99") == b""


# ---------------------------------------------------------------- replies


def test_replies_never_hold_the_token_and_failures_are_text_without_data(book: Playbook) -> None:
    book.open()
    for error in (WorkerFailure("x"), OSError(2, "gone"), ValueError()):
        book.fail(book.ask("execute", execute()), error)
    book.reply(book.ask("execute", execute()), saying("x"))
    book.host_says(frame(id="7", method="nothing"))
    book.host_says(frame(id="8", method="execute", token="wrong"))  # noqa: S106
    for message in book.said("worker"):
        assert "token" not in message
        assert TOKEN.reveal() not in str(message)
        assert ("data" in message) != ("error" in message)
        if "error" in message:
            assert isinstance(message["error"], str)
            assert message["error"]
    assert len(book.said("worker")) == 7


def test_a_reply_that_nobody_waits_for_is_dropped(book: Playbook) -> None:
    book.open()
    for line in (b'{"id":"99","data":{}}\n', b'{"id":"","error":"x"}\n', b'{"method":"new"}\n'):
        book.worker_says(line)
    assert book.at_host() == []


def test_an_error_beside_data_counts_as_an_error_and_an_empty_error_as_success(
    book: Playbook,
) -> None:
    book.open()
    first, second = book.ask("execute", execute()), book.ask("execute", execute())
    book.worker_says(b'{"id":"%s","data":{},"error":"broken"}\n' % first.encode())
    book.worker_says(b'{"id":"%s","data":{},"error":""}\n' % second.encode())
    failed, fine = book.at_host()
    assert isinstance(failed, ReplyArrived)
    assert str(failed.error) == "broken"
    assert fine == ReplyArrived(second, ToolResult())


@pytest.mark.parametrize("rest", [b',"data":{"content":7}', b',"data":[]', b"", b',"data":null'])
def test_a_reply_of_another_shape_fails_its_own_request_only(book: Playbook, rest: bytes) -> None:
    book.open()
    first, second = book.ask("execute", execute()), book.ask("execute", execute())
    book.worker_says(b'{"id":"%s"%s}\n' % (first.encode(), rest))
    [reply] = book.at_host()
    assert isinstance(reply, ReplyArrived)
    assert isinstance(reply.error, RemoteProtocolViolation)
    assert "the reply to execute" in str(reply.error)
    book.reply(second, saying("fine"))
    assert book.at_host() == [ReplyArrived(second, saying("fine"))]


def test_a_request_can_end_only_once(book: Playbook) -> None:
    book.open()
    request_id = book.ask("execute", execute())
    book.reply(request_id, saying("x"))
    for again in (book.reply, book.worker.initialized):
        with pytest.raises(LocalProtocolViolation, match="not running"):
            again(request_id, "y")
    other = book.ask("execute", execute())
    with pytest.raises(LocalProtocolViolation, match="not an initialize"):
        book.worker.initialized(other, "/w")
