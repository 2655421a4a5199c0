from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.secrets import byte_search
from moorage.workspace.secrets.byte_search import holds

FILLER = b"\0ab" * 2000


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=4))
def test_large_and_small_data_are_searched_alike(piece: bytes, literal: bytes) -> None:
    assert holds(piece, literal) == (literal in piece)
    assert holds(FILLER + piece, literal) == (literal in FILLER + piece)


def test_a_c_library_without_the_search_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_search, "_memmem", lambda: None)
    assert holds(FILLER + b"token", b"token")
    assert not holds(FILLER, b"token")
