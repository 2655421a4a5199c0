"""Reading and closing a snapshot, as messages."""

from __future__ import annotations

import msgspec
import pytest

from moorage.protocol.exports import ExportClosed, ExportReadReply, ExportReadRequest


def test_an_empty_snapshot_ends_at_once_and_a_close_is_answered_by_an_empty_object() -> None:
    assert msgspec.json.encode(ExportReadReply(data=b"", eof=True)) == b'{"data":"","eof":true}'
    assert msgspec.json.encode(ExportClosed()) == b"{}"


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="offset"):
        msgspec.convert({"token": "t", "offset": -1}, ExportReadRequest)
