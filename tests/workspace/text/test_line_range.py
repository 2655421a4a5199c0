from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.text.line_range import select_lines

data_and_steps = st.tuples(
    st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\r", b"bb"]), max_size=30).map(b"".join),
    st.integers(1, 7),
)


def keep_ends(data: bytes) -> list[bytes]:
    *lines, rest = data.split(b"\n")
    whole = [line + b"\n" for line in lines]
    return [*whole, rest] if rest else whole


@given(data_and_steps, st.integers(1, 12), st.one_of(st.none(), st.integers(0, 12)))
def test_any_split_gives_the_same_lines(
    made: tuple[bytes, int], start: int, limit: int | None
) -> None:
    data, step = made
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    selection = select_lines(parts, start, limit, 1000)
    lines = keep_ends(data)
    end = None if limit is None else start - 1 + limit
    assert selection.data == b"".join(lines[start - 1 : end])
    assert selection.total_lines == len(lines)
    assert selection.digest == hashlib.sha256(data).hexdigest()
    assert selection.lf_count == data.count(b"\n")
    assert selection.crlf_count == data.count(b"\r\n")
    assert selection.has_all


@given(data_and_steps, st.integers(0, 20))
def test_a_bound_cuts_the_selection_and_says_so(made: tuple[bytes, int], most: int) -> None:
    data, step = made
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    selection = select_lines(parts, 1, None, most)
    assert selection.data == data[:most]
    assert selection.has_all == (len(data) <= most)
    assert selection.total_lines == len(keep_ends(data))


def test_one_step_that_is_wanted_whole_is_not_copied() -> None:
    data = b"a\n" * 10
    assert select_lines([data], 1, None, 1000).data is data
