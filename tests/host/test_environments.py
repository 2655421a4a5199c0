from __future__ import annotations

import msgspec
import pytest

from moorage.backends.profile import Profile
from moorage.errors import ConfigError
from moorage.host.environments import forwarded, identity_of

BOX = Profile(backend="docker", image="img:1")


def test_an_identity_differs_by_store_session_and_world() -> None:
    base = identity_of("/store", "s-1", BOX)
    assert base.startswith("moorage-")
    assert base == identity_of("/store", "s-1", BOX)
    others = {
        identity_of("/other", "s-1", BOX),
        identity_of("/store", "s-2", BOX),
        *(
            identity_of("/store", "s-1", msgspec.structs.replace(BOX, **change))
            for change in (
                {"image": "img:2"},
                {"network": "none"},
                {"cpus": 2.0},
                {"memory_mb": 5},
                {"persistent": True},
                {"shared": True},
                {"forward_env": ("TOKEN",)},
                {"host_workspace": "/src"},
                {"user": "1000"},
            )
        ),
    }
    assert base not in others
    assert len(others) == 11


def test_a_cosmetic_change_keeps_the_identity() -> None:
    changed = msgspec.structs.replace(
        BOX, lifetime_seconds=9, shutdown_timeout_ms=9, worker="/opt/w", python="python3.12"
    )
    assert identity_of("/store", "s-1", changed) == identity_of("/store", "s-1", BOX)


def test_sessions_of_a_shared_profile_have_one_identity() -> None:
    shared = msgspec.structs.replace(BOX, shared=True)
    assert identity_of("/store", "s-1", shared) == identity_of("/store", "s-2", shared)


def test_only_named_variables_are_forwarded_and_a_missing_one_refuses() -> None:
    profile = msgspec.structs.replace(BOX, forward_env=("A", "EMPTY"))
    assert forwarded(profile, {"A": "1", "EMPTY": "", "B": "2"}) == {"A": "1", "EMPTY": ""}
    with pytest.raises(ConfigError, match="EMPTY, which is not set"):
        forwarded(profile, {"A": "1"})
