"""Pieces of files: base64 on the wire, bounded on both sides."""

from __future__ import annotations

import msgspec
import pytest

from moorage.protocol.files import (
    MAX_PIECE_BYTES,
    FileReadReply,
    FileReadRequest,
    FileWriteRequest,
    InputWriteRequest,
)


def test_raw_bytes_travel_as_base64_and_come_back_the_same() -> None:
    reply = FileReadReply(data=b"\xff\xfe\x00", eof=True, size=3)
    wire = msgspec.json.encode(reply)
    assert wire == b'{"data":"//4A","eof":true,"size":3}'
    assert msgspec.json.decode(wire, type=FileReadReply) == reply


@pytest.mark.parametrize(
    "fields", [{"offset": -1}, {"max_bytes": 0}, {"max_bytes": MAX_PIECE_BYTES + 1}]
)
def test_a_window_that_cannot_be_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"path": "x", "actor": "a", **fields}, FileReadRequest)


@pytest.mark.parametrize("message", [FileWriteRequest, InputWriteRequest])
def test_a_piece_of_a_mebibyte_is_taken_and_one_byte_more_is_not(
    message: type[FileWriteRequest | InputWriteRequest],
) -> None:
    fields = {"path": "x", "actor": "a", "eof": True}
    exact = msgspec.json.encode({**fields, "data": b"x" * MAX_PIECE_BYTES})
    assert len(msgspec.json.decode(exact, type=message).data) == MAX_PIECE_BYTES
    with pytest.raises(msgspec.ValidationError, match="data"):
        msgspec.json.decode(
            msgspec.json.encode({**fields, "data": b"x" * (MAX_PIECE_BYTES + 1)}), type=message
        )


def test_text_that_is_not_base64_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"data":"%%%","eof":true}', type=InputWriteRequest)
