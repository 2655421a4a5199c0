from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.confine.nursery.messages import (
    Kind,
    Message,
    decode,
    decode_texts,
    encode,
    encode_texts,
    plan_from_texts,
    plan_to_texts,
)
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode

texts = st.binary(max_size=20).map(lambda data: data.replace(b"\0", b""))
groups = st.lists(st.lists(texts, max_size=4).map(tuple), max_size=4).map(tuple)
numbers = st.lists(st.integers(0, 2**64 - 1), max_size=6).map(tuple)


@given(st.sampled_from(Kind), st.integers(0, 2**64 - 1), numbers, groups)
def test_every_message_comes_back_as_it_was(kind, call, numbers, texts) -> None:
    message = Message(kind, call, numbers, texts)
    assert decode(encode(message)) == message


@pytest.mark.parametrize("texts", [((b"a\0b",),), ((b"\0",),), ((b"a",), (b"", b"\0"))])
def test_a_text_with_a_nul_is_refused(texts) -> None:
    with pytest.raises(ValueError, match="NUL"):
        encode(Message(Kind.SPAWN, 1, (), texts))


@given(st.binary(max_size=20))
def test_names_that_are_no_text_survive(raw: bytes) -> None:
    assert encode_texts(decode_texts((raw,))) == (raw,)


def test_a_plan_comes_back_as_it_was() -> None:
    plan = Plan(PermissionMode.READ_ONLY, ("/a", "/b"), (), ("/c",), ("/d",))
    assert plan_from_texts(plan_to_texts(plan)) == plan
