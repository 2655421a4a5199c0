"""The proof of the torture of environments can fail."""

from __future__ import annotations

from torture.environments import wrong_effects

TOKENS = [("one", True), ("two", False), ("three", False)]


def test_effects_that_happened_once_or_were_never_told_are_fine() -> None:
    assert wrong_effects(TOKENS, "one\nthree\n") == []


def test_an_effect_that_happened_twice_is_found() -> None:
    assert wrong_effects(TOKENS, "one\ntwo\ntwo\n") == ["two happened 2 times"]


def test_an_effect_that_was_told_and_is_gone_is_found() -> None:
    assert wrong_effects(TOKENS, "two\n") == [
        "one was told to have happened, and its effect is gone"
    ]


def test_an_effect_that_nobody_asked_for_is_found() -> None:
    assert wrong_effects(TOKENS, "one\nfour\n") == ["nobody asked for four"]
