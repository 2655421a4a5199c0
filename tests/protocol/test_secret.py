"""A secret shows itself to nobody who does not ask."""

from __future__ import annotations

import copy

import pytest

from moorage.protocol.secret import Secret


def test_no_form_of_a_secret_shows_its_text() -> None:
    secret = Secret("hunter2-hunter2")
    for form in (repr(secret), str(secret), f"{secret}", f"{[secret]}", "%s" % secret):  # noqa: UP031
        assert "hunter2" not in form
        assert "****" in form


def test_a_secret_gives_its_text_when_asked() -> None:
    assert Secret("tök\udc80").reveal() == "tök\udc80"
    assert len(Secret("abc")) == 3


def test_a_secret_matches_only_its_own_text() -> None:
    secret = Secret("päss")
    assert secret.matches("päss")
    assert not secret.matches("pass")
    assert not secret.matches("päs")
    assert secret == Secret("päss")
    assert secret != Secret("pass")
    assert secret != ["päss"]
    assert len({secret, Secret("päss")}) == 1


def test_a_secret_cannot_be_pickled_or_copied_into_a_store() -> None:
    with pytest.raises(TypeError, match="reveal"):
        copy.deepcopy(Secret("x"))
