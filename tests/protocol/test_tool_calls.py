"""Tool calls and results as they stand on the wire."""

from __future__ import annotations

import msgspec
import pytest

from moorage.protocol.tool_calls import ContentPart, ExecuteRequest, ToolCall, ToolResult


def test_the_text_of_a_result_is_its_text_parts_one_below_the_other() -> None:
    image = ContentPart(type="image", data="QQ==", mime_type="image/png")
    parts = (ContentPart(type="text", text="a"), image, ContentPart(type="text", text="b"))
    assert ToolResult(content=parts).text == "a\nb"


def test_what_is_empty_does_not_travel() -> None:
    assert msgspec.json.encode(ToolResult()) == b"{}"
    request = ExecuteRequest(call=ToolCall(name="bash"), actor="a")
    assert msgspec.json.encode(request) == b'{"call":{"name":"bash"},"actor":"a"}'


@pytest.mark.parametrize("mode", ["", "standard", "read_only", "unconfined"])
def test_every_permission_mode_is_taken(mode: str) -> None:
    wire = {"call": {"name": "bash"}, "actor": "a", "permission_mode": mode}
    assert msgspec.convert(wire, ExecuteRequest).permission_mode == mode


@pytest.mark.parametrize("mode", ["root", "standard\n", "READ_ONLY", "unconfined2", " "])
def test_an_unknown_permission_mode_is_refused(mode: str) -> None:
    wire = {"call": {"name": "bash"}, "actor": "a", "permission_mode": mode}
    with pytest.raises(msgspec.ValidationError, match="permission_mode"):
        msgspec.convert(wire, ExecuteRequest)


@pytest.mark.parametrize("wire", [{"call": {"name": "x"}}, {"call": {"name": "x"}, "actor": ""}])
def test_an_empty_or_missing_actor_is_refused(wire: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match="actor"):
        msgspec.convert(wire, ExecuteRequest)
