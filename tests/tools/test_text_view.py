from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.tools.text_view import numbered_view, split_lines


def test_only_line_feeds_and_their_pairs_end_lines() -> None:
    assert split_lines("a\r\nb\nc\rd\v\u2028e") == ["a", "b", "c\rd\v\u2028e"]
    assert split_lines("a\n\n") == ["a", ""]
    assert split_lines("") == []


def test_the_bom_is_hidden_at_the_start_only() -> None:
    assert numbered_view("\ufeffa\n", 1, 100).text == "1|a"
    assert numbered_view("\ufeffa\n", 2, 100).text == "2|\ufeffa"


def test_lines_are_shown_up_to_the_last_that_fits() -> None:
    view = numbered_view("aaaa\nbbbb\ncccc\n", 1, 12)
    assert view.text == "1|aaaa\n|bbbb"
    assert (view.shown_lines, view.is_line_cut) == (2, False)


def test_a_first_line_that_does_not_fit_is_cut_between_characters() -> None:
    view = numbered_view("\u2603\u2603\u2603\n", 1, 6)
    assert (view.text, view.shown_lines, view.is_line_cut) == ("1|\u2603", 1, True)


@given(st.text(max_size=200), st.integers(1, 30), st.integers(8, 120))
def test_a_view_keeps_its_budget_and_loses_no_line_silently(
    text: str, start: int, budget: int
) -> None:
    view = numbered_view(text, start, budget)
    assert len(view.text.encode("utf-8", "replace")) <= budget
    assert 0 <= view.shown_lines <= len(split_lines(text))
    if view.shown_lines < len(split_lines(text)):
        assert view.shown_lines >= 1
