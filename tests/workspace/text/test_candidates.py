from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.text.candidates import Candidate, CandidateLimits, find_candidates

SOURCE = b"""import os


def calculate_total(items, tax):
    total = sum(item.price for item in items)
    return total * (1 + tax)


def calculate_average(items):
    if not items:
        return 0
    return calculate_total(items, 0) / len(items)
"""


def find(text: str, data: bytes = SOURCE, **limits: int | float) -> tuple[Candidate, ...]:
    return find_candidates(data, text.encode(), CandidateLimits(**limits))


def test_a_slip_in_one_word_finds_the_block() -> None:
    best = find("def calculate_totla(items, tax):\n    total = sum(item.price for item in items)")[
        0
    ]
    assert (best.start_line, best.end_line) == (4, 5)
    assert 0.9 < best.score < 1
    assert best.hint == ""


def test_other_indentation_is_hinted_and_scores_full() -> None:
    best = find("if not items:\n    return 0")[0]
    assert (best.start_line, best.end_line, best.score) == (10, 11, 1.0)
    assert "white space" in best.hint


def test_a_line_left_out_still_leads_to_the_place() -> None:
    text = "def calculate_average(items):\n    return calculate_total(items, 0) / len(items)"
    found = find(text)
    assert {9, 11} & {candidate.start_line for candidate in found}
    assert all(candidate.start_line >= 9 for candidate in found[:1])


def test_candidates_come_best_first_and_are_few() -> None:
    data = b"".join(b"value_%d = compute(%d)\n" % (at, at) for at in range(20))
    found = find("value_7 = computed(7)", data)
    assert len(found) <= 3
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)


def test_text_without_likeness_finds_nothing() -> None:
    assert find("entirely unrelated words") == ()
    assert find("()") == ()
    assert find("\n") == ()


def test_a_weak_likeness_is_not_offered() -> None:
    assert find("sum of all the many other things", least_score=0.9) == ()


def test_an_empty_file_has_no_candidates() -> None:
    assert find("anything", b"") == ()


def test_snippets_are_bounded_in_lines_and_width() -> None:
    data = b"".join(b"line_%d " % at + b"x" * 500 + b"\n" for at in range(12))
    text = "".join(f"line_{at} {'x' * 499}\n" for at in range(12))
    snippet = find(text, data)[0].snippet
    assert snippet.count("\n") == 5
    assert max(map(len, snippet.split("\n"))) == 200


def test_a_text_longer_than_the_file_is_matched_as_far_as_it_goes() -> None:
    best = find("one\ntwo\nthree_x\n", b"one\ntwo\nthree_y")[0]
    assert (best.start_line, best.end_line) == (1, 3)


def test_text_that_begins_before_the_file_is_taken_from_the_first_line() -> None:
    best = find(
        "missing\nfirst_word second_word", b"first_word second_word\nrest\n", least_score=0
    )[0]
    assert best.start_line == 1


def test_text_at_the_end_without_line_end_is_found() -> None:
    best = find("second_wrod = 1", b"first = 0\nsecond_word = 1")[0]
    assert (best.start_line, best.snippet) == (2, "second_word = 1")


def test_words_of_other_alphabets_count() -> None:
    data = "eins\nGrüße aus Köln\n".encode()
    assert find("Grüße aus Kölm", data)[0].start_line == 2


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_any_bytes_give_bounded_places_of_the_file(data: bytes, text: bytes) -> None:
    found = find_candidates(data, text, CandidateLimits(least_score=0))
    assert len(found) <= 3
    for item in found:
        assert 1 <= item.start_line <= item.end_line <= data.count(b"\n") + 1
        assert 0 <= item.score <= 1
