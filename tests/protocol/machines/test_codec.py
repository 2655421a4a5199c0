"""Frames to messages and back."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.errors import LocalProtocolViolation, RemoteProtocolViolation
from moorage.protocol.machines.codec import (
    Answer,
    Encoder,
    Message,
    Request,
    decode,
    encode_data,
)
from moorage.protocol.methods import METHODS
from moorage.protocol.secret import Secret

MESSAGES = [Request, Message, Answer, *{m.request for m in METHODS.values() if m.request}]


@given(st.binary(max_size=300), st.sampled_from(MESSAGES))
def test_any_bytes_are_a_message_or_a_violation_of_the_other_side(
    data: bytes, message: type[object]
) -> None:
    with suppress(RemoteProtocolViolation):
        assert decode(data, message, "fuzz") is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = ["id", "method", "token", "data", "error", "parent_id", "sequence", "call", "actor", "other"]


@given(st.dictionaries(st.sampled_from(KEYS), json_values), st.sampled_from(MESSAGES))
def test_any_json_object_is_a_message_or_a_violation_of_the_other_side(
    value: dict[str, object], message: type[object]
) -> None:
    try:
        data = encode_data(value)
    except LocalProtocolViolation:
        return
    with suppress(RemoteProtocolViolation):
        assert decode(data, message, "fuzz") is not None


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"   ",
        b"hello",
        b"[]",
        b"null",
        b'"text"',
        b"{",
        b'{"id":"1"}',
        b'{"method":"execute"}',
        b'{"id":1,"method":"execute"}',
        b'{"id":"1","method":null}',
        b'{"id":"1","method":"execute","token":null}',
        b'{"id":"\xff","method":"execute"}',
        b'{"id":"1","method":"execute"} {}',
        b'{"id":"1","method":"execute","data":}',
        b'{"id":"1","method":"x","data":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    ],
)
def test_a_frame_that_is_not_a_request_is_a_violation(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolViolation, match=r"^the frame: "):
        decode(frame, Request, "the frame")


def test_unknown_keys_and_a_carriage_return_are_let_pass() -> None:
    request = decode(b'{"id":"1","method":"x","later":{"a":[1]}}\r', Request, "x")
    assert (request.id, request.method, request.token, bytes(request.data)) == (
        "1",
        "x",
        "",
        b"null",
    )


def test_a_request_never_shows_its_token() -> None:
    request = decode(b'{"id":"1","method":"x","token":"hunter2","data":"hunter2"}', Request, "x")
    assert "hunter2" not in repr(request)


def test_every_frame_is_one_line_of_its_keys() -> None:
    host, worker = Encoder(Secret("t" * 32)), Encoder()
    token = "t" * 32
    frames = {
        host.request("1", "cancel"): {"token": token, "id": "1", "method": "cancel"},
        host.request("1", "x", b"{}"): {"token": token, "id": "1", "method": "x", "data": {}},
        worker.reply("1", b"[1]"): {"id": "1", "data": [1]},
        worker.failure("1", 'a "b"\n'): {"id": "1", "error": 'a "b"\n'},
        worker.tool("c", "1", b"{}"): {"id": "c", "parent_id": "1", "method": "tool", "data": {}},
        worker.process(b"{}", 3): {"id": "", "method": "process", "data": {}, "sequence": 3},
    }
    for frame, expected in frames.items():
        assert frame.count(b"\n") == 1
        assert frame.endswith(b"\n")
        assert msgspec.json.decode(frame) == expected


def test_a_frame_of_exactly_the_bound_is_built_and_one_byte_more_is_not() -> None:
    overhead = len(Encoder().reply("1", b""))
    encoder = Encoder(max_frame_bytes=overhead + 10)
    assert len(encoder.reply("1", b"1234567890")) == overhead + 10
    with pytest.raises(LocalProtocolViolation, match=f"{overhead + 11} bytes") as error:
        encoder.reply("1", b"12345678901")
    assert "write_bytes" in str(error.value)


@pytest.mark.parametrize(
    "value",
    [object(), {"a": "\udc80"}, {(1, 2): 3}, pytest.param(10**5000, id="a very long number")],
)
def test_a_value_without_a_json_form_is_our_own_violation(value: object) -> None:
    with pytest.raises(LocalProtocolViolation, match="cannot be encoded"):
        encode_data(value)


def test_a_value_that_contains_itself_is_our_own_violation() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(LocalProtocolViolation, match="cannot be encoded"):
        encode_data(endless)
