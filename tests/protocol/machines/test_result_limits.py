"""Limits of a tool result, each named when it is broken."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.errors import LocalProtocolViolation
from moorage.protocol.machines.result_limits import ResultLimits, encode_result
from moorage.protocol.tool_calls import Activity, ArtifactPart, ContentPart, ToolResult

MIB = 1024 * 1024
LIMITS = ResultLimits()


def text(characters: str) -> ContentPart:
    return ContentPart(type="text", text=characters)


def with_part(**fields: Any) -> ToolResult:
    return ToolResult(content=(ContentPart(**fields),))


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(),
        ToolResult(content=(text("x"),) * 128),
        ToolResult(content=(text("x" * MIB),)),
        ToolResult(content=(text("x" * MIB), text("y" * MIB))),
        ToolResult(structured_content={"x": "y" * (MIB - 8)}, meta={"x": "y" * (MIB - 8)}),
        with_part(type="image", data="A" * (2 * MIB * 4 // 3), mime_type="image/png"),
        with_part(type="audio", uri="file:///x", mime_type="audio/ogg"),
        with_part(type="resource", resource={"a": 1}),
        with_part(type="file", uri="u", mime_type="m", artifact=ArtifactPart(ref="r")),
        ToolResult(activity=Activity(id="a", kind="process")),
    ],
)
def test_a_result_within_the_limits_is_encoded_as_it_is(result: ToolResult) -> None:
    assert msgspec.json.decode(encode_result(result, LIMITS), type=ToolResult) == result


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (ToolResult(content=(text("x"),) * 129), "content has 129 parts; the most is 128"),
        (ToolResult(content=(text("x" * (MIB + 1)),)), r"content\[0\].text has 1048577 bytes"),
        (ToolResult(content=(text("é" * (MIB // 2 + 1)),)), r"content\[0\].text has 1048578"),
        (ToolResult(content=(text("x" * MIB),) * 3), "whole has .* the most is 3145728"),
        (ToolResult(structured_content={"x": "y" * MIB}), "structured_content has 1048584 bytes"),
        (ToolResult(meta={"x": "y" * MIB}), "meta has 1048584 bytes"),
        (with_part(type="text", data="A" * 3 * MIB), r"content\[0\].data has 2359296 bytes"),
        (with_part(type="text", name="n" * 1025), r"content\[0\].name has 1025"),
        (with_part(type="text", uri="u" * 8193), r"content\[0\].uri has 8193"),
        (with_part(type="text", mime_type="m" * 257), r"content\[0\].mime_type has 257"),
        (with_part(type="file", artifact=ArtifactPart(ref="r" * 513)), "artifact.ref has 513"),
        (with_part(type="resource", resource="r" * MIB), r"content\[0\].resource has 1048578"),
        (with_part(type="image", data="QQ=="), "image, which needs a mime_type"),
        (with_part(type="file", mime_type="text/plain"), "file, which needs a mime_type"),
        (ToolResult(activity=Activity(id="", kind="x")), "activity needs an id"),
        (ToolResult(structured_content={"x": object()}), "cannot be encoded"),
    ],
)
def test_a_result_that_breaks_a_limit_is_not_sent_and_says_which(
    result: ToolResult, told: str
) -> None:
    with pytest.raises(LocalProtocolViolation, match=told):
        encode_result(result, LIMITS)


def test_base64_is_counted_by_the_bytes_that_it_stands_for() -> None:
    limits = ResultLimits(max_data_bytes=1)
    encode_result(with_part(type="text", data="QQ=="), limits)
    with pytest.raises(LocalProtocolViolation, match="data has 2 bytes"):
        encode_result(with_part(type="text", data="QUE="), limits)
