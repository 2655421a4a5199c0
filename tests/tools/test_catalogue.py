from __future__ import annotations

from typing import Any

import pytest

from moorage.errors import InvalidArguments, Refused, UnknownTool
from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ToolCall, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ReadFileArguments
from moorage.tools.catalogue import Catalogue, workspace_catalogue
from moorage.tools.results import success


class Echo:
    spec = WORKSPACE_TOOLS["read_file"]

    async def run(self, arguments: ReadFileArguments, context: Any) -> ToolResult:
        return success(arguments.path)


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue.of([Echo()], highest=PermissionMode.STANDARD)


async def test_a_call_reaches_the_tool_with_decoded_arguments(catalogue: Catalogue, desk) -> None:
    call = ToolCall(name="read_file", arguments='{"path": "a.txt"}')
    result = await catalogue.dispatch(call, desk.context())
    assert result.text == "a.txt"


@pytest.mark.parametrize("arguments", ["", "  \n"])
async def test_empty_arguments_count_as_an_empty_object(
    catalogue: Catalogue, desk, arguments: str
) -> None:
    call = ToolCall(name="read_file", arguments=arguments)
    assert (await catalogue.dispatch(call, desk.context())).text == ""


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        ('{"path": 3}', "argument path: Expected `str`, got `int`"),
        ('{"path": "a", "line": 3}', "contains unknown field `line`"),
        ("[]", "Expected `object`, got `array`"),
        ("{", "the arguments are not valid JSON"),
        ('{"path": "\\ud800"}', "the arguments are not valid JSON"),
    ],
)
async def test_wrong_arguments_name_the_field_and_what_the_tool_takes(
    catalogue: Catalogue, desk, arguments: str, telling: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await catalogue.dispatch(ToolCall(name="read_file", arguments=arguments), desk.context())
    assert telling in str(caught.value)
    assert "read_file" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("bash", {"command": "ls", "scope": "everything"}, "affected, full, targeted"),
        (
            "write_file",
            {"path": "a", "content": "b", "overwrite_policy": "mine"},
            "explicit_user_requested, generated, small_file",
        ),
    ],
)
async def test_a_value_outside_the_choices_names_them(
    desk, name: str, arguments: dict[str, str], allowed: str
) -> None:
    with pytest.raises(InvalidArguments, match=rf"It is one of: {allowed}\."):
        await desk.call(name, **arguments)


async def test_a_missing_argument_is_named(desk) -> None:
    with pytest.raises(InvalidArguments, match=r"missing required field `content`.*It takes: path"):
        await desk.call("write_file", path="a.txt")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("apply_patch", "edit_file"), ("process", "bash"), ("notes", "Known tools: read_file")],
)
async def test_tools_of_earlier_designs_are_unknown(desk, name: str, hint: str) -> None:
    arguments = {"action": "list"} if name == "process" else {"patch": "*** Begin Patch"}
    with pytest.raises(UnknownTool, match=hint):
        await desk.call(name, **arguments)


async def test_a_mode_wider_than_granted_is_refused(catalogue: Catalogue, desk) -> None:
    with pytest.raises(Refused) as caught:
        await catalogue.dispatch(
            ToolCall(name="read_file"), desk.context(PermissionMode.UNCONFINED)
        )
    assert caught.value.reason == "mode_not_granted"


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_read_only_refuses_to_write_before_anything_is_looked_at(desk, tool: str) -> None:
    arguments = {"path": "new/a.txt"}
    if tool == "write_file":
        arguments["content"] = "x"
    else:
        arguments |= {"old_text": "a", "new_text": "b"}
    with pytest.raises(Refused) as caught:
        await desk.call(tool, mode=PermissionMode.READ_ONLY, **arguments)
    assert caught.value.reason == "boundary_denied"
    assert desk.names() == []


def test_the_nine_tools_are_described_without_being_imported() -> None:
    catalogue = workspace_catalogue()
    assert [spec.name for spec in catalogue.describe()] == list(WORKSPACE_TOOLS)
    assert len(catalogue.describe()) == 9


def test_tools_given_ready_made_are_described(catalogue: Catalogue) -> None:
    catalogue.load()
    assert [spec.name for spec in catalogue.describe()] == ["read_file"]


def test_loading_imports_every_tool_that_is_named() -> None:
    places = {"read_file": "moorage.tools.read_file:TOOL"}
    catalogue = Catalogue(places, highest=PermissionMode.STANDARD)
    catalogue.load()
    assert catalogue.describe() == (WORKSPACE_TOOLS["read_file"],)
