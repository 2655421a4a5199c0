from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.process.output import (
    clean,
    clip_lines,
    excerpt,
    head_end,
    tail_start,
    token_count,
)


def test_a_token_is_four_bytes_and_a_part_of_one_counts() -> None:
    assert token_count("") == 0
    assert token_count("abcd") == 1
    assert token_count("abcde") == 2
    assert token_count("éé") == 1
    assert token_count("\ud800") == 1


@given(st.text(max_size=60), st.integers(0, 130))
def test_a_cut_never_splits_a_character(text: str, limit: int) -> None:
    data = text.encode("utf-8", "replace")
    end, start = head_end(data, limit), tail_start(data, limit)
    assert data[:end].decode() + data[end:].decode() == data.decode()
    assert data[:start].decode() + data[start:].decode() == data.decode()
    assert end <= limit
    assert len(data) - start <= limit


@given(st.binary(max_size=60), st.integers(0, 70))
def test_a_cut_of_any_bytes_stays_within_its_limit(data: bytes, limit: int) -> None:
    assert limit - 3 <= head_end(data, limit) <= limit or head_end(data, limit) == len(data)
    assert len(data) - tail_start(data, limit) <= limit


def test_an_excerpt_says_how_many_bytes_are_missing_between_its_parts() -> None:
    whole = b"first\n" + b"x" * 100 + b"last\n"
    part = excerpt(whole, head_bytes=6, tail_bytes=5)
    assert part.omitted_bytes == 100
    assert part.join() == b"first\n[... 100 bytes omitted ...]\nlast\n"


def test_an_excerpt_of_something_short_is_the_whole() -> None:
    part = excerpt(b"abcdef", head_bytes=3, tail_bytes=3)
    assert part.join() == b"abcdef"
    assert part.omitted_bytes == 0


def test_a_head_without_a_line_end_gets_one_before_the_marker() -> None:
    part = excerpt(b"abcdefgh", head_bytes=2, tail_bytes=2)
    assert part.join() == b"ab\n[... 4 bytes omitted ...]\ngh"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bplain", "plain"),
        ("\x1b7saved\x1b8", "saved"),
        ("\x1bPdcs\x1b\\after", "after"),
        ("\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\left", "left"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x85next", "next"),
        ("bold: N\bNA\bAME", "bold: NAME"),
        ("\b\bx", "x"),
        ("bell\x07 and null\x00", "bell and null"),
        ("\n  \n\nfirst\n  indented\n\n", "first\n  indented"),
        ("one\r\ntwo\r\n", "one\ntwo"),
        ("dots\r\r\nmore", "dots\nmore"),
        ("é\x1b[1mü", "éü"),
    ],
)
def test_cleaning_leaves_what_a_terminal_would_show(raw: str, shown: str) -> None:
    assert clean(raw).text == shown


def test_a_progress_bar_collapses_to_its_last_state_and_is_counted() -> None:
    bar = "".join(f"\r\x1b[2K{step * 100 // 500}%" for step in range(1, 501))
    cleaned = clean(f"start\n{bar}\nend\n")
    assert cleaned.text == "start\n100%\nend"
    assert cleaned.redraws == 499


def test_a_state_that_ends_with_a_carriage_return_still_shows() -> None:
    assert clean("50%\r100%\r").text == "100%"
    assert clean("\r\r").text == ""


@pytest.mark.timeout(5)  # looked at once for each of them, this would take minutes
@pytest.mark.parametrize("start", ["\r" * 500_000 + "x", "\r\r\rx" * 100_000, "\x1b]" * 200_000])
def test_what_is_cleaned_is_looked_at_once(start: str) -> None:
    assert clean(f"{start}\nend").text.endswith("end")


def test_an_unfinished_escape_hides_nothing_that_follows() -> None:
    assert clean("\x1b]0;never ended\nvisible").text == "0;never ended\nvisible"
    assert "visible" in clean("\x1bPnever ended\nvisible").text


@given(st.text(alphabet="\x1b[]0;m\x07\r\n\b\x9b\x90Pa é\\", max_size=200))
def test_cleaned_text_holds_no_control_characters(text: str) -> None:
    cleaned = clean(text).text
    assert not set(cleaned) & set("\x1b\r\b\x07\x9b\x90")


def test_text_within_the_budget_is_not_clipped() -> None:
    assert clip_lines("a\nb", budget_tokens=1) == clip_lines("a\nb", budget_tokens=100)
    assert clip_lines("a\nb", budget_tokens=1).text == "a\nb"


def test_clipping_keeps_whole_lines_a_third_from_the_head_and_the_rest_from_the_tail() -> None:
    lines = [f"line {number:04d}" for number in range(1000)]
    clipped = clip_lines("\n".join(lines), budget_tokens=75, reference="/the/log")
    shown = clipped.text.split("\n")
    marker = shown.index(
        f"[... {clipped.omitted_lines} lines omitted or shortened; full log: /the/log ...]"
    )
    assert shown[:marker] == lines[:10]
    assert shown[marker + 1 :] == lines[-20:]
    assert clipped.omitted_lines == 970


def test_a_single_line_above_the_budget_is_cut_between_characters() -> None:
    clipped = clip_lines("é" * 1000, budget_tokens=30)
    head, marker, tail = clipped.text.split("\n")
    assert (head, tail) == ("é" * 20, "é" * 40)
    assert marker == "[... 1 line omitted or shortened ...]"


@given(st.lists(st.text(alphabet="ab é", max_size=30), max_size=40), st.integers(1, 60))
def test_clipped_text_keeps_to_its_budget_but_for_the_marker(lines: list[str], budget: int) -> None:
    clipped = clip_lines("\n".join(lines), budget_tokens=budget)
    kept = "".join(line for line in clipped.text.split("\n") if not line.startswith("[..."))
    assert len(kept.encode()) <= budget * 4
