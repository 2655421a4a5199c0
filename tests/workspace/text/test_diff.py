from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.edit import Edited, replace_text
from moorage.workspace.text.diff import (
    MAX_SIDE_BYTES,
    count_lines,
    describe_edit,
    describe_rewrite,
    edit_spans,
)

short_lines = st.lists(st.sampled_from(["a", "b", "", "cc", "\r"]), max_size=30).map("\n".join)


def diff_of_edit(old: str, old_text: str, new_text: str) -> dict[str, Any]:
    outcome = replace_text(old.encode(), old_text, new_text, replace_all=True)
    assert isinstance(outcome, Edited)
    spans = edit_spans(outcome.starts, outcome.old_length, outcome.new_length)
    return describe_edit(old.encode(), outcome.data, spans)


def rebuilt(old: bytes, diff: dict[str, Any]) -> list[str]:
    """Apply the hunks to the lines of ``old``, checking their equal and deleted lines."""
    lines = [line.rstrip(b"\r").decode() for line in old.split(b"\n")[: count_lines(old)]]
    result: list[str] = []
    position = 0
    for hunk in diff["hunks"]:
        start = max(0, hunk["old_start"] - 1)
        result += lines[position:start]
        assert hunk["new_start"] in (len(result) + 1, 0)
        position = start
        for line in hunk["lines"]:
            if line["op"] != "insert":
                assert lines[position] == line["content"]
                position += 1
            if line["op"] != "delete":
                result.append(line["content"])
    return result + lines[position:]


def ops(diff: dict[str, Any]) -> list[list[tuple[str, str]]]:
    return [[(line["op"], line["content"]) for line in hunk["lines"]] for hunk in diff["hunks"]]


def test_an_edit_shows_three_lines_of_context_on_each_side() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 21))
    diff = diff_of_edit(old, "line 10\n", "line ten\n")
    assert diff["hunks"][0]["old_start"] == 7
    assert diff["hunks"][0]["new_start"] == 7
    assert ops(diff) == [
        [
            ("equal", "line 7"),
            ("equal", "line 8"),
            ("equal", "line 9"),
            ("delete", "line 10"),
            ("insert", "line ten"),
            ("equal", "line 11"),
            ("equal", "line 12"),
            ("equal", "line 13"),
        ]
    ]
    assert diff["summary"] == "+1 -1 lines"
    assert (diff["old_lines"], diff["new_lines"]) == (20, 20)
    assert not diff["truncated"]


def test_lines_that_old_and_new_text_share_are_shown_as_equal() -> None:
    diff = diff_of_edit("a\nb\nc\nd\n", "a\nb\nc\n", "a\nB\nc\n")
    assert ops(diff) == [
        [("equal", "a"), ("delete", "b"), ("insert", "B"), ("equal", "c"), ("equal", "d")]
    ]


def test_matches_on_one_line_make_one_change() -> None:
    diff = diff_of_edit("x x\n", "x", "yy")
    assert ops(diff) == [[("delete", "x x"), ("insert", "yy yy")]]


def test_far_matches_make_hunks_of_their_own_and_near_ones_share_one() -> None:
    old = "x\n" + "-\n" * 6 + "x\n" + "-\n" * 7 + "x\n"
    diff = diff_of_edit(old, "x\n", "y\nz\n")
    assert [hunk["old_start"] for hunk in diff["hunks"]] == [1, 13]
    assert [hunk["new_start"] for hunk in diff["hunks"]] == [1, 15]


def test_a_change_of_the_last_line_without_end_is_shown() -> None:
    diff = diff_of_edit("a\nb", "b", "c")
    assert ops(diff) == [[("equal", "a"), ("delete", "b"), ("insert", "c")]]


def test_joining_lines_deletes_both() -> None:
    diff = diff_of_edit("a\nb\nc\n", "a\n", "a")
    assert ops(diff) == [[("delete", "a"), ("delete", "b"), ("insert", "ab"), ("equal", "c")]]


def test_an_edit_that_empties_the_file_has_no_new_line() -> None:
    diff = diff_of_edit("only\n", "only\n", "")
    assert ops(diff) == [[("delete", "only")]]
    assert diff["hunks"][0]["new_start"] == 0
    assert diff["new_lines"] == 0


def test_a_new_file_is_all_insertions() -> None:
    diff = describe_rewrite(b"", b"a\nb\n", is_new_file=True)
    assert diff["new_file"]
    assert diff["hunks"][0]["old_start"] == 0
    assert ops(diff) == [[("insert", "a"), ("insert", "b")]]


def test_an_identical_rewrite_has_no_hunk() -> None:
    diff = describe_rewrite(b"same\n", b"same\n")
    assert diff["hunks"] == []
    assert diff["summary"] == "+0 -0 lines"


def test_a_rewrite_is_one_change_between_common_ends() -> None:
    diff = describe_rewrite(b"a\nb\nc\n", b"a\nx\ny\nc\n")
    assert ops(diff) == [
        [("equal", "a"), ("delete", "b"), ("insert", "x"), ("insert", "y"), ("equal", "c")]
    ]


def test_more_than_32_kib_of_a_rewrite_is_summed_up() -> None:
    at_bound = describe_rewrite(b"", b"x" * MAX_SIDE_BYTES)
    above = describe_rewrite(b"y\n", b"x" * (MAX_SIDE_BYTES + 1))
    assert not at_bound["truncated"]
    assert above["truncated"]
    assert above["hunks"] == []
    assert above["summary"] == "too long to show: 1 lines became 1"


def test_a_small_edit_of_a_long_file_still_shows_its_hunk() -> None:
    old = "".join(f"line {number}\n" for number in range(20_000))
    diff = diff_of_edit(old, "line 15000\n", "changed\n")
    assert not diff["truncated"]
    assert ("insert", "changed") in ops(diff)[0]


def test_too_many_hunks_are_summed_up() -> None:
    old = ("x" + "-" * 100 + "\n" + ("-" * 100 + "\n") * 10) * 100
    diff = diff_of_edit(old, "x", "y")
    assert diff["truncated"]
    assert diff["hunks"] == []


def test_an_edit_with_unlisted_matches_is_summed_up() -> None:
    assert describe_edit(b"x", b"y", [], is_complete=False)["truncated"]


def test_line_ends_and_broken_bytes_do_not_reach_the_content() -> None:
    diff = diff_of_edit("a\r\nb\r\n", "b", "c")
    assert ops(diff) == [[("equal", "a"), ("delete", "b"), ("insert", "c")]]
    broken = describe_rewrite(b"", b"\xff\n")
    assert ops(broken) == [[("insert", "\N{REPLACEMENT CHARACTER}")]]


@given(short_lines, short_lines)
def test_hunks_of_a_rewrite_rebuild_the_new_text(old: str, new: str) -> None:
    diff = describe_rewrite(old.encode(), new.encode())
    wanted = [line.rstrip("\r") for line in new.split("\n")[: count_lines(new.encode())]]
    assert rebuilt(old.encode(), diff) == wanted


@given(short_lines, st.sampled_from(["a", "b\n", "\n", "a\nb", "\n\n"]), short_lines)
def test_hunks_of_an_edit_rebuild_the_new_text(old: str, old_text: str, new_text: str) -> None:
    if old_text not in old or "\r\n" in old:
        return
    outcome = replace_text(old.encode(), old_text, new_text, replace_all=True)
    assert isinstance(outcome, Edited)
    spans = edit_spans(outcome.starts, outcome.old_length, outcome.new_length)
    diff = describe_edit(old.encode(), outcome.data, spans)
    new = outcome.data
    wanted = [line.rstrip(b"\r").decode() for line in new.split(b"\n")[: count_lines(new)]]
    assert diff["truncated"] or rebuilt(old.encode(), diff) == wanted
