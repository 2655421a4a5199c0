"""Totals of everything, records of one page, bounds on what is kept."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.search.hits import (
    Collector,
    Line,
    SearchLimits,
    Sheet,
    Slice,
    SnapshotDigest,
    TooDeep,
    digest_of,
    shortened,
)


def collector(need: int, *, counts_files: bool = False, max_kept_bytes: int = 10**6) -> Collector:
    return Collector(
        need=need, max_kept_bytes=max_kept_bytes, question=("q",), counts_files=counts_files
    )


@given(
    st.dictionaries(st.binary(min_size=1, max_size=3), st.integers(1, 5), max_size=300),
    st.integers(0, 40),
    st.integers(1, 20),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_a_page_is_the_same_in_whatever_order_the_files_come(
    files: dict[bytes, int], offset: int, length: int, counts_files: bool, order: random.Random
) -> None:
    shuffled = list(files.items())
    order.shuffle(shuffled)
    taken = collector(offset + length, counts_files=counts_files)
    for path, matches in shuffled:
        taken.add(path, matches)
    records = [
        (path, number)
        for path, matches in sorted(files.items())
        for number in range(1 if counts_files else matches)
    ]
    page = [
        (part.path, number)
        for part in taken.page(offset, length)
        for number in range(part.skip, part.skip + part.take)
    ]
    assert page == records[offset : offset + length]
    assert taken.total_records == len(records)
    assert (taken.total_files, taken.total_matches) == (len(files), sum(files.values()))


def test_only_what_the_page_can_need_is_remembered() -> None:
    taken = collector(10)
    for number in range(10_000, 0, -1):
        taken.add(b"%06d" % number, 1)
    assert len(taken._files) <= 84
    assert [part.path for part in taken.page(0, 2)] == [b"000001", b"000002"]


def test_a_page_that_needs_more_than_the_bound_is_too_deep() -> None:
    taken = collector(1000, max_kept_bytes=1000)
    for number in range(3):
        taken.add(b"%06d" % number, 1)
    with pytest.raises(TooDeep):
        taken.add(b"last", 1)


def test_a_token_changes_with_each_file_its_count_and_its_state() -> None:
    def token(*files: tuple[bytes, int, bytes]) -> str:
        taken = collector(9)
        for path, matches, state in files:
            taken.add(path, matches, state)
        return taken.token()

    files = ((b"a", 1, b"s"), (b"b", 2, b"t"))
    assert token(*files) == token(*reversed(files))
    others = [token(), token(files[0]), token((b"a", 1, b"s"), (b"b", 3, b"t"))]
    others += [token((b"a", 1, b"x"), files[1]), token((b"c", 1, b"s"), files[1])]
    assert len({token(*files), *others}) == 6


def test_a_token_knows_its_question_and_how_many_items_there_were() -> None:
    one, two = SnapshotDigest("a", "b"), SnapshotDigest("a\0", "b")
    assert one.token() != two.token()
    assert digest_of(b"ab", b"c") != digest_of(b"a", b"bc")
    one.add(0)
    assert one.token() != SnapshotDigest("a", "b").token()


def match(number: int, text: bytes = b"hit") -> Line:
    return Line(number, text, is_match=True)


def around(number: int, text: bytes = b"near") -> Line:
    return Line(number, text, is_match=False)


def test_a_sheet_keeps_its_part_and_the_lines_around_it() -> None:
    sheet = Sheet(Slice(b"f", 4, 1, 2), SearchLimits())
    for line in (
        around(1), match(2), around(3), around(4), match(5), around(6), match(7), around(8),
        around(9), match(10), around(11),
    ):  # fmt: skip
        sheet.add(line)
    shown = [
        (
            [line.number for line in record.before],
            record.line and record.line.number,
            [line.number for line in record.after],
        )
        for record in sheet.records(before=1, after=1)
    ]
    assert shown == [([4], 5, [6]), ([], 7, [8])]
    assert (sheet.matches, sheet.wanted) == (4, 3)


def test_a_sheet_stops_keeping_when_the_answer_is_full() -> None:
    sheet = Sheet(Slice(b"f", 100, 0, 100), SearchLimits(max_content_bytes=30, max_match_bytes=10))
    for number in range(100):
        sheet.add(match(number, b"x" * 50))
    assert len(sheet.records(before=0, after=0)) == 4
    assert sheet.matches == 100


def test_a_line_too_long_keeps_only_its_number() -> None:
    sheet = Sheet(Slice(b"f", 1, 0, 1), SearchLimits(max_line_bytes=10))
    sheet.add(match(7, b"x" * 11))
    (record,) = sheet.records(before=0, after=0)
    assert record.line == Line(7, b"", is_match=True, is_too_long=True)


@given(st.text(max_size=60), st.integers(0, 60), st.integers(4, 20))
def test_a_shortened_line_is_whole_characters_around_its_match(
    text: str, position: int, max_bytes: int
) -> None:
    at = len(text[:position].encode())
    line = Line(1, text.encode(), is_match=True, match_at=at)
    short = shortened(line, max_bytes)
    assert len(short.text) <= max(max_bytes, 0)
    assert short.text.decode() in text
    assert len(short.text) + short.omitted_bytes == len(line.text)
    if at < len(line.text):
        assert 0 <= short.match_at < len(short.text) + 4


def test_a_short_line_stays_as_it_is() -> None:
    line = match(1, b"abc")
    assert shortened(line, 3) is line
