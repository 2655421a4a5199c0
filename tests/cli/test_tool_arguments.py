from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cli.tool_arguments import parse_words, type_of
from moorage.errors import InvalidArguments
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS


def no_file(place: str) -> str:
    raise AssertionError(f"{place} was read")


def parse(name: str, *words: str, read_text: Any = no_file) -> dict[str, Any]:
    return parse_words(name, WORKSPACE_TOOLS[name].input_schema(), words, read_text)


def test_values_get_the_type_that_the_tool_asks_for() -> None:
    arguments = parse("grep", "pattern=x", "context=3", "ignore_case=yes", "output_mode=count")
    assert arguments == {"pattern": "x", "context": 3, "ignore_case": True, "output_mode": "count"}


def test_a_value_keeps_everything_after_the_first_equals_sign() -> None:
    assert parse("grep", "pattern=a=b@c\n")["pattern"] == "a=b@c\n"


@given(st.text())
def test_text_arrives_as_it_was_typed(text: str) -> None:
    assert parse("bash", f"command={text}") == {"command": text}


def test_a_list_takes_one_word_after_another_or_a_json_array() -> None:
    assert parse("git", "subcommand=add", "args=a b", "args=-n")["args"] == ["a b", "-n"]
    assert parse("git", "subcommand=add", 'args=["a", "b"]')["args"] == ["a", "b"]


def test_the_content_of_a_file_comes_with_an_at_sign() -> None:
    words = ("path=a.py", "content@draft.py")
    arguments = parse("write_file", *words, read_text=lambda place: f"text of {place}")
    assert arguments == {"path": "a.py", "content": "text of draft.py"}


def test_text_that_begins_with_an_at_sign_is_no_file() -> None:
    words = ("path=a.py", "old_text=@property", "new_text=")
    assert parse("edit_file", *words)["old_text"] == "@property"


def test_one_json_object_is_taken_as_it_is() -> None:
    assert parse("read_file", ' {"path": "a", "limit": 2}') == {"path": "a", "limit": 2}
    assert parse("read_file", "-", read_text=lambda _: '{"path": "b"}') == {"path": "b"}


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("grep", ("patern=x",), "grep has no argument 'patern'; did you mean pattern?"),
        ("git", ("zzz=x",), "it takes subcommand, args."),
        ("grep", ("pattern=x", "context=many"), "context must be a whole number, not 'many'."),
        ("grep", ("pattern=x", "ignore_case=maybe"), "must be true or false, not 'maybe'."),
        ("grep", ("pattern=x", "output_mode=all"), "output_mode must be one of content, count"),
        ("bash", ("command=ls", "scope=everything"), "one of affected, full, targeted, not 'ev"),
        ("grep", (), "grep needs the argument pattern."),
        ("edit_file", ("path=a",), "needs the arguments old_text and new_text."),
        ("grep", ("pattern=x", "pattern=y"), "pattern is given twice."),
        ("grep", ("TODO",), "'TODO' is not an argument; write key=value"),
        ("grep", ("{bad",), "the arguments of grep are not valid JSON"),
        ("grep", ('{"patern": "x"}',), "did you mean pattern?"),
        ("git", ("subcommand=add", "args=[1"), "args is not a valid JSON array"),
    ],
)
def test_what_does_not_fit_is_named(name: str, words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse(name, *words)
    assert sentence in str(caught.value)


def test_json_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="must be one JSON object"):
        parse("grep", "-", read_text=lambda _: "[1]")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "string"}, "text"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "number"),
        ({"type": "boolean"}, "true|false"),
        ({"enum": ["a", "b"]}, "a|b"),
        ({"enum": ["", "a", "b"]}, "a|b"),
        ({"type": "array", "items": {"type": "string"}}, "text, repeatable"),
        ({"type": "object"}, "JSON"),
        ({}, "JSON"),
        ({"anyOf": [{"type": "null"}]}, "JSON"),
    ],
)
def test_the_type_of_a_field_is_one_word(field: dict[str, Any], expected: str) -> None:
    assert type_of(field) == expected
