"""The workspace tools as both wings know them."""

from __future__ import annotations

import msgspec
import pytest

from moorage.policy.permission import Effect
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolSpec


def test_there_are_nine_tools_and_process_and_apply_patch_are_none_of_them() -> None:
    assert set(WORKSPACE_TOOLS) == {
        "read_file",
        "write_file",
        "edit_file",
        "list_files",
        "grep",
        "glob",
        "bash",
        "git",
        "present_artifact",
    }


@pytest.mark.parametrize("spec", WORKSPACE_TOOLS.values(), ids=WORKSPACE_TOOLS)
def test_the_schema_of_a_tool_stands_alone_and_describes_every_argument(spec: ToolSpec) -> None:
    schema = spec.input_schema()
    assert schema["type"] == "object"
    assert "title" not in schema
    assert "$ref" not in msgspec.json.encode(schema).decode()
    assert schema["additionalProperties"] is False
    assert all(field["description"] for field in schema["properties"].values())


@pytest.mark.parametrize("spec", WORKSPACE_TOOLS.values(), ids=WORKSPACE_TOOLS)
def test_what_only_reads_is_never_called_destructive(spec: ToolSpec) -> None:
    assert not (spec.effect is Effect.READ and spec.is_destructive)


@pytest.mark.parametrize("spec", WORKSPACE_TOOLS.values(), ids=WORKSPACE_TOOLS)
def test_an_unknown_argument_is_refused(spec: ToolSpec) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"no_such_argument": 1}, spec.arguments)
