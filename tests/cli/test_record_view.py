from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cli.record_view import SHOWN_LINES, body, heading
from moorage.host.record import CallRecord
from moorage.protocol.tool_calls import ContentPart

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
KEYS = ("diff", "command", "output", "path", "outcome", "exit_code", "status", "hunks", "lines")


def call(structured: Any = None, **fields: Any) -> CallRecord:
    facts = {"call_id": "1", "name": "bash", "actor": "a", "mode": "standard", "duration_ms": 2}
    started_at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    return CallRecord(
        **{**facts, "started_at": started_at, "structured_content": structured, **fields}
    )


@given(json_values | st.dictionaries(st.sampled_from(KEYS), json_values))
def test_a_record_of_any_form_and_age_can_be_drawn(structured: Any) -> None:
    record = call(structured)
    lines = [heading(1, record), *body(record, is_full=True)]
    assert not [line for line in lines if "\x1b" in line or "\n" in line]


@pytest.mark.parametrize(
    ("structured", "fields", "word"),
    [
        ({"outcome": "exited", "exit_code": 3}, {}, "exit 3"),
        ({"outcome": "timed_out", "exit_code": -1}, {}, "timed_out"),
        ({"error_kind": "not_found"}, {"is_error": True}, "not_found"),
        ({"action": "edit", "path": "a.py"}, {}, "edit"),
        (None, {"error_code": "refused", "error": "no."}, "refused"),
        (None, {"is_error": True}, "error"),
    ],
)
def test_the_heading_says_how_the_call_went(
    structured: Any, fields: dict[str, Any], word: str
) -> None:
    assert heading(1, call(structured, **fields)).split("  ")[-2] == word


def test_a_long_output_is_shown_by_its_end_below_its_command() -> None:
    output = "\n".join(f"line {number}" for number in range(100))
    lines = body(call({"command": "make", "output": output}))
    assert lines[0] == "$ make"
    assert lines[1] == "… 88 lines; --full shows them"
    assert lines[2:] == [f"line {number}" for number in range(100 - SHOWN_LINES, 100)]
    assert len(body(call({"command": "make", "output": output}), is_full=True)) == 101


def test_a_change_is_drawn_as_a_diff() -> None:
    lines = [{"op": "equal", "content": "a"}, {"op": "delete", "content": "b\n"}]
    diff = {"hunks": [{"old_start": 4, "new_start": 4, "lines": lines}]}
    assert body(call({"diff": diff})) == ["@@ -4 +4 @@", "  a", "- b"]


def test_an_error_is_drawn_by_its_sentence() -> None:
    assert body(call(error="the worker went away.")) == ["the worker went away."]


def test_a_result_of_unknown_form_is_drawn_as_json() -> None:
    assert body(call({"odd": [1]})) == ['{"odd": [1]}']
    assert body(call()) == []
    part = ContentPart(type="text", text="said")
    assert body(call(["odd"], content=(part,))) == ["said"]
