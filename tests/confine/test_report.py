from __future__ import annotations

import pytest

from moorage.confine.report import (
    GAPS,
    NOT_ENFORCED_BY_A_PROVIDER,
    not_enforced,
    sentences,
)

LATER = {"device_ioctl", "signals", "abstract_sockets"}


@pytest.mark.parametrize(
    ("abi", "open_still"),
    [
        (3, LATER),
        (4, LATER),
        (5, {"signals", "abstract_sockets"}),
        (6, set()),
        (7, set()),
    ],
)
def test_an_older_abi_leaves_more_open(abi: int, open_still: set[str]) -> None:
    gaps = not_enforced(abi)
    assert set(gaps) & LATER == open_still
    assert {"path_sockets", "network", "file_attributes"} <= set(gaps)


def test_where_nothing_runs_nothing_is_open() -> None:
    assert not_enforced(2) == ()
    assert not_enforced(7, "win32") == ()


def test_every_gap_has_a_sentence() -> None:
    assert sentences(not_enforced(3)) == tuple(GAPS[gap] for gap in not_enforced(3))
    everything = (*not_enforced(3, are_calls_filtered=False), *NOT_ENFORCED_BY_A_PROVIDER)
    assert set(everything) == set(GAPS)


def test_where_no_filter_is_known_that_is_a_gap() -> None:
    assert "unfiltered_calls" not in not_enforced(7)
    assert "unfiltered_calls" in not_enforced(7, are_calls_filtered=False)
