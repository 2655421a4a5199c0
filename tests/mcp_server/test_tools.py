from __future__ import annotations

from typing import Any

import mcp_types
import pytest

from moorage.errors import (
    ConfigError,
    EnvironmentDied,
    InvalidArguments,
    OutcomeUnknown,
    Refused,
)
from moorage.mcp_server.tools import call_result, content_block, error_result, mcp_tools
from moorage.protocol.tool_calls import ArtifactPart, ContentPart, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS

NINE = [
    "read_file",
    "write_file",
    "edit_file",
    "list_files",
    "grep",
    "glob",
    "bash",
    "git",
    "present_artifact",
]


def annotations(name: str) -> mcp_types.ToolAnnotations:
    found = next(tool for tool in mcp_tools() if tool.name == name).annotations
    assert found is not None
    return found


def test_exactly_the_nine_workspace_tools_are_offered() -> None:
    assert [tool.name for tool in mcp_tools()] == NINE


def test_every_schema_is_a_closed_object_with_described_fields() -> None:
    for tool in mcp_tools():
        schema = tool.input_schema
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert "$ref" not in str(schema)
        assert all(field.get("description") for field in schema["properties"].values()), tool.name


@pytest.mark.parametrize("name", ["read_file", "list_files", "grep", "glob", "present_artifact"])
def test_a_tool_that_only_reads_says_so(name: str) -> None:
    hints = annotations(name)
    assert hints.read_only_hint is True
    assert hints.destructive_hint is False
    assert hints.idempotent_hint is True


@pytest.mark.parametrize("name", ["write_file", "edit_file", "bash", "git"])
def test_a_tool_that_may_change_something_never_calls_itself_harmless(name: str) -> None:
    hints = annotations(name)
    assert hints.read_only_hint is False
    assert hints.destructive_hint is True


def test_writing_the_same_file_again_is_idempotent_and_editing_it_again_is_not() -> None:
    assert annotations("write_file").idempotent_hint is True
    assert annotations("edit_file").idempotent_hint is False
    assert annotations("bash").idempotent_hint is False


def test_only_commands_reach_an_open_world() -> None:
    open_world = [name for name in WORKSPACE_TOOLS if annotations(name).open_world_hint]
    assert open_world == ["bash"]


def test_a_result_keeps_the_view_as_content_and_the_data_beside_it() -> None:
    result = call_result(
        ToolResult(
            content=(ContentPart(type="text", text="3 passed"),),
            structured_content={"outcome": "exited", "exit_code": 0},
        )
    )
    assert result.content == [mcp_types.TextContent(text="3 passed")]
    assert result.structured_content == {"outcome": "exited", "exit_code": 0}
    assert result.is_error is False


def test_a_result_that_is_an_error_stays_one() -> None:
    result = call_result(ToolResult(structured_content={"error_kind": "not_found"}, is_error=True))
    assert result.is_error is True
    assert result.structured_content == {"error_kind": "not_found"}


def test_an_image_and_a_sound_keep_their_bytes_and_kind() -> None:
    image = content_block(ContentPart(type="image", data="iVBO", mime_type="image/png"))
    sound = content_block(ContentPart(type="audio", data="UklG", mime_type="audio/wav"))
    assert image == mcp_types.ImageContent(data="iVBO", mime_type="image/png")
    assert sound == mcp_types.AudioContent(data="UklG", mime_type="audio/wav")


def test_a_published_file_becomes_a_link_with_its_size() -> None:
    part = ContentPart(
        type="resource_link",
        uri="file:///home/user/report.pdf",
        name="report.pdf",
        artifact=ArtifactPart(ref="r", size_bytes=12),
    )
    link = content_block(part)
    assert isinstance(link, mcp_types.ResourceLink)
    assert (link.uri, link.name, link.size) == ("file:///home/user/report.pdf", "report.pdf", 12)


def test_a_link_without_a_name_is_called_like_its_file() -> None:
    link = content_block(ContentPart(type="file", uri="file:///a/b.txt"))
    assert isinstance(link, mcp_types.ResourceLink)
    assert link.name == "b.txt"


def test_a_file_that_has_no_address_becomes_its_text() -> None:
    assert content_block(ContentPart(type="file", name="x")) == mcp_types.TextContent(text="x")


def test_an_error_is_a_result_with_its_sentence_code_and_hint() -> None:
    result = error_result(InvalidArguments("offset: expected int.", hint="Give a number."))
    assert result.is_error is True
    assert result.content == [mcp_types.TextContent(text="offset: expected int. Give a number.")]
    assert result.structured_content == {
        "error": {
            "code": "invalid_arguments",
            "message": "offset: expected int.",
            "hint": "Give a number.",
        }
    }


def facts(result: mcp_types.CallToolResult) -> dict[str, Any]:
    assert isinstance(result.structured_content, dict)
    found = result.structured_content["error"]
    assert isinstance(found, dict)
    return found


def test_a_refusal_names_its_reason_and_a_configuration_error_its_field() -> None:
    assert facts(error_result(Refused("no.", reason="boundary_denied")))["reason"] == (
        "boundary_denied"
    )
    assert facts(error_result(ConfigError("bad.", path="default")))["path"] == "default"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (EnvironmentDied("it ended."), "environment_died"),
        (OutcomeUnknown("it went away."), "unknown"),
    ],
)
def test_an_end_that_nobody_saw_is_rendered_as_an_outcome(
    error: EnvironmentDied | OutcomeUnknown, outcome: str
) -> None:
    structured = error_result(error).structured_content
    assert structured["outcome"] == outcome
    assert structured["error"]["code"] == error.code


def test_what_was_known_before_the_end_stands_before_the_sentence() -> None:
    so_far = ToolResult(
        content=(ContentPart(type="text", text="half the output"),),
        structured_content={"stdout_bytes": 15},
    )
    result = error_result(EnvironmentDied("it ended.", result=so_far))
    assert [part.text for part in result.content if part.type == "text"] == [
        "half the output",
        "it ended.",
    ]
    assert result.structured_content["stdout_bytes"] == 15


def test_an_envelope_that_an_error_carries_is_kept() -> None:
    result = error_result(OutcomeUnknown("it went away.", result={"command": "make"}))
    assert result.structured_content["command"] == "make"
