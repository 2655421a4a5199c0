"""Program messages keep the casing of the wire and refuse what they do not know."""

from __future__ import annotations

import msgspec
import pytest

from moorage.protocol.programs import Program, RunCodeReply


def test_a_program_reply_has_the_capitals_of_the_wire() -> None:
    sent = msgspec.json.decode(msgspec.json.encode(RunCodeReply(value=1)))
    assert sent == {"Logs": None, "Value": 1, "Error": "", "Media": None}
    failed = msgspec.json.decode(msgspec.json.encode(RunCodeReply(error="x", call_summary="y")))
    assert failed["CallSummary"] == "y"


def test_a_result_view_that_is_not_known_is_refused_not_replaced() -> None:
    assert msgspec.convert({"code": "1"}, Program).result_view == "structured"
    with pytest.raises(msgspec.ValidationError, match="result_view"):
        msgspec.convert({"code": "1", "result_view": "pretty"}, Program)
