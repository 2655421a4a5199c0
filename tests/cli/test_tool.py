from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.cli.tool import show_result
from moorage.errors import Refused
from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS


def test_the_tools_are_listed_with_what_they_do(command_line: Any) -> None:
    ended = command_line("tool")
    assert ended.code == 0
    for name in WORKSPACE_TOOLS:
        assert name in ended.out.decode()


def test_the_tools_are_listed_as_json_with_their_schemas(command_line: Any) -> None:
    listed = command_line("tool", "--json").document
    assert [each["name"] for each in listed] == list(WORKSPACE_TOOLS)
    assert listed[0]["input_schema"]["type"] == "object"


def test_a_tool_gets_typed_arguments(command_line: Any, session: Any) -> None:
    ended = command_line("tool", "read_file", "path=a.py", "limit=3", "-m", "read_only")
    assert ended.code == 0
    assert ended.out == b"done\n"
    assert session.asked == [("read_file", {"path": "a.py", "limit": 3})]
    assert session.opened_with["mode"] == "read_only"


@pytest.mark.parametrize(
    ("stays", "words", "asked"),
    [
        (False, (), {"hand_over": False}),
        (False, ("hand_over=true",), {"hand_over": True}),
        (True, (), {}),
    ],
)
def test_a_command_is_handed_over_only_where_its_worker_stays(
    command_line: Any, session: Any, stays: bool, words: tuple[str, ...], asked: dict[str, bool]
) -> None:
    session.processes.outlive_host = stays
    command_line("tool", "bash", "command=true", *words)
    assert session.asked == [("bash", {"command": "true", **asked})]


def test_content_comes_from_a_file_or_from_standard_input(
    command_line: Any, session: Any, tmp_path: Path
) -> None:
    draft = tmp_path / "draft"
    draft.write_text("text")
    command_line("tool", "write_file", "path=a", f"content@{draft}")
    command_line("tool", "write_file", "path=a", "content@-", stdin=b"typed")
    assert [arguments["content"] for _, arguments in session.asked] == ["text", "typed"]


@pytest.mark.parametrize("name", WORKSPACE_TOOLS)
def test_the_help_of_a_tool_shows_every_argument(command_line: Any, name: str) -> None:
    ended = command_line("tool", name, "--help")
    assert ended.code == 0
    for argument in WORKSPACE_TOOLS[name].input_schema()["properties"]:
        assert argument in ended.out.decode()


def test_an_unknown_tool_is_127_and_names_the_nearest(command_line: Any) -> None:
    ended = command_line("tool", "edit_fle", "path=x")
    assert ended.code == 127
    assert ended.err == (
        b"moorage: There is no tool 'edit_fle'; did you mean edit_file? moorage tool lists them.\n"
    )


@pytest.mark.parametrize("name", ["apply_patch", "process", "zzzz"])
def test_tools_that_do_not_exist_any_more_are_unknown(command_line: Any, name: str) -> None:
    assert command_line("tool", name).code == 127


def test_a_wrong_type_is_a_usage_error(command_line: Any, session: Any) -> None:
    ended = command_line("tool", "read_file", "path=a", "limit=many", "--json")
    assert ended.code == 2
    assert ended.document["error"]["code"] == "invalid_arguments"
    assert session.asked == []


@pytest.mark.parametrize(
    ("data", "sentence"), [(None, "cannot be read"), (b"\xff", "is not UTF-8 text")]
)
def test_content_that_is_no_text_file_is_named(
    command_line: Any, session: Any, tmp_path: Path, data: bytes | None, sentence: str
) -> None:
    draft = tmp_path / "draft"
    if data is not None:
        draft.write_bytes(data)
    ended = command_line("tool", "write_file", "path=a", f"content@{draft}")
    assert ended.code == 2
    assert sentence in ended.err.decode()


def test_a_tool_that_failed_exits_with_1_and_speaks_on_standard_error(
    command_line: Any, session: Any
) -> None:
    part = ContentPart(type="text", text="no such file")
    session.tool_result = ToolResult(content=(part,), is_error=True)
    ended = command_line("tool", "read_file", "path=a")
    assert (ended.code, ended.out, ended.err) == (1, b"", b"moorage: no such file\n")


def test_a_refused_tool_exits_with_126(command_line: Any, session: Any) -> None:
    session.error = Refused("the mode is read_only.", reason="boundary_denied")
    assert command_line("tool", "write_file", "path=a", "content=b").code == 126


def test_the_whole_result_is_there_as_json(command_line: Any, session: Any) -> None:
    part = ContentPart(type="text", text="x")
    session.tool_result = ToolResult(content=(part,), structured_content={"path": "a"})
    ended = command_line("tool", "read_file", "path=a", "--json")
    assert ended.document == {
        "content": [{"type": "text", "text": "x"}],
        "structured_content": {"path": "a"},
        "is_error": False,
    }


def test_an_image_is_named_where_only_text_can_be_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    image = ContentPart(type="image", mime_type="image/png", data="QUJD")
    show_result(ToolResult(content=(ContentPart(type="text", text="a"), image)))
    expected = "a\n[image image/png, 4 base64 characters; --json has it whole]\n"
    assert capsys.readouterr().out == expected


def test_an_empty_result_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    show_result(ToolResult())
    assert capsys.readouterr().out == ""
    show_result(ToolResult(is_error=True))
    assert capsys.readouterr().err == "moorage: the tool failed without a word.\n"
