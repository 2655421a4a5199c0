from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moorage.workspace.edit import (
    PLACEHOLDER,
    Edited,
    ManyMatches,
    NoMatch,
    has_only_crlf,
    replace_text,
)
from moorage.workspace.text.candidates import CandidateLimits

texts = st.text(alphabet="ab\n", max_size=12)


def edited(data: bytes, old: str, new: str, *, replace_all: bool = False) -> Edited:
    outcome = replace_text(data, old, new, replace_all=replace_all)
    assert isinstance(outcome, Edited)
    return outcome


def absent(data: bytes, old: str) -> NoMatch:
    outcome = replace_text(data, old, "new")
    assert isinstance(outcome, NoMatch)
    return outcome


def test_the_one_match_is_replaced_and_its_place_told() -> None:
    outcome = edited(b"one two three", "two", "2")
    assert outcome == Edited(
        data=b"one 2 three", replacements=1, starts=(4,), old_length=3, new_length=1
    )


def test_text_may_be_replaced_by_nothing() -> None:
    assert edited(b"one two", " two", "").data == b"one"


def test_all_matches_are_replaced_from_left_to_right_without_overlap() -> None:
    outcome = edited(b"aaaaa", "aa", "b", replace_all=True)
    assert outcome.data == b"bba"
    assert outcome.replacements == 2
    assert outcome.starts == (0, 2)


def test_replacing_all_of_one_match_is_an_ordinary_edit() -> None:
    assert edited(b"x y", "x", "z", replace_all=True).data == b"z y"


def test_overlapping_matches_are_two_places() -> None:
    outcome = replace_text(b"aaa", "aa", "b")
    assert isinstance(outcome, ManyMatches)
    assert outcome.count == 2


def test_many_matches_name_the_first_places_only() -> None:
    outcome = replace_text(b"x\n" * 9, "x", "y")
    assert isinstance(outcome, ManyMatches)
    assert outcome.count == 9
    assert [place.start_line for place in outcome.candidates] == [1, 2, 3, 4, 5]


def test_a_place_spans_the_lines_that_the_match_touches() -> None:
    outcome = replace_text(b"p\nq r\ns\nq r\ns", "r\ns", "y")
    assert isinstance(outcome, ManyMatches)
    places = [(place.start_line, place.end_line, place.snippet) for place in outcome.candidates]
    assert places == [(2, 3, "q r\ns"), (4, 5, "q r\ns")]


def test_only_listed_places_are_counted_one_by_one() -> None:
    limits = CandidateLimits(listed_matches=2)
    outcome = replace_text(b"ababab", "ab", "c", limits=limits)
    assert isinstance(outcome, ManyMatches)
    assert outcome.count == 3
    assert len(outcome.candidates) == 2


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"", False),
        (b"a", False),
        (b"a\n", False),
        (b"a\r", False),
        (b"a\r\n", True),
        (b"a\r\nb", True),
        (b"a\r\nb\n", False),
    ],
)
def test_a_crlf_file_has_no_other_line_end(data: bytes, answer: bool) -> None:
    assert has_only_crlf(data) is answer


@pytest.mark.parametrize("old", ["a\nb", "a\r\nb"])
@pytest.mark.parametrize("new", ["c\nd", "c\r\nd"])
def test_a_crlf_file_takes_either_line_end_and_keeps_its_own(old: str, new: str) -> None:
    assert edited(b"x\r\na\r\nb\r\n", old, new).data == b"x\r\nc\r\nd\r\n"


def test_new_lines_put_into_one_line_of_a_crlf_file_are_crlf() -> None:
    assert edited(b"a b\r\n", "b", "b\nc").data == b"a b\r\nc\r\n"


def test_a_mixed_file_needs_exact_bytes() -> None:
    data = b"a\r\nb\nc\n"
    outcome = absent(data, "a\nb")
    assert "mixes CRLF and LF" in outcome.hint
    assert edited(data, "a\r\nb", "a\nb").data == b"a\nb\nc\n"


def test_a_file_with_carriage_returns_elsewhere_gets_no_such_hint() -> None:
    assert absent(b"a\rb\n", "zzz").hint == ""


def test_a_bom_and_broken_bytes_stay_where_they_are() -> None:
    assert edited(b"\xef\xbb\xbfa\xffb", "b", "c").data == b"\xef\xbb\xbfa\xffc"


def test_numbering_of_the_view_is_explained_and_what_was_meant_is_found() -> None:
    outcome = absent(b"first\nsecond\nthird\n", "1|first\n|second")
    assert "leave out the numbers and bars" in outcome.hint
    assert (outcome.candidates[0].start_line, outcome.candidates[0].end_line) == (1, 2)


def test_bars_that_are_no_numbering_get_no_such_hint() -> None:
    assert absent(b"text\n", "|cell|\n|cell|").hint == ""
    assert absent(b"text\n", "1|").hint == ""


def test_the_mask_of_secrets_is_explained() -> None:
    assert "read_file" in absent(b"key = value\n", f"key = {PLACEHOLDER}").hint


def test_the_character_for_broken_bytes_is_explained() -> None:
    assert "not UTF-8" in absent(b"caf\xe9\n", "caf\N{REPLACEMENT CHARACTER}").hint


@given(texts, texts.filter(bool), texts)
@example("aaa", "aa", "b")
def test_an_edit_agrees_with_the_plain_meaning(text: str, old: str, new: str) -> None:
    outcome = replace_text(text.encode(), old, new)
    places = sum(text.startswith(old, at) for at in range(len(text)))
    if places == 0:
        assert isinstance(outcome, NoMatch)
    elif places == 1:
        assert isinstance(outcome, Edited)
        assert outcome.data.decode() == text.replace(old, new)
    else:
        assert isinstance(outcome, ManyMatches)
        assert outcome.count >= 2


@given(texts, texts.filter(bool), texts)
def test_replacing_all_agrees_with_the_plain_meaning(text: str, old: str, new: str) -> None:
    outcome = replace_text(text.encode(), old, new, replace_all=True)
    if old in text:
        assert isinstance(outcome, Edited)
        assert outcome.data.decode() == text.replace(old, new)
        assert outcome.replacements == text.count(old) == len(outcome.starts)
    else:
        assert isinstance(outcome, NoMatch)


@given(st.binary(max_size=60), st.text(min_size=1, max_size=6))
def test_no_bytes_break_the_search(data: bytes, old: str) -> None:
    outcome = replace_text(data, old, "new")
    assert (
        outcome.replacements == 1 if isinstance(outcome, Edited) else outcome.candidates is not None
    )
