"""The table of methods is whole and consistent."""

from __future__ import annotations

from moorage.protocol.binding import BYTES, PROCESS_START
from moorage.protocol.methods import (
    CONTROL_METHODS,
    METHODS,
    REQUIRED_BY_CAPABILITY,
    SERVED_METHODS,
)


def test_every_method_is_served_or_handled_by_the_machines_or_goes_to_the_host() -> None:
    to_host = {name for name, method in METHODS.items() if method.direction == "to_host"}
    assert to_host == {"tool", "process"}
    assert set(METHODS) == SERVED_METHODS | CONTROL_METHODS | to_host
    assert all(name == method.name for name, method in METHODS.items())


def test_every_served_method_needs_the_binding_and_has_a_reply() -> None:
    for name in SERVED_METHODS:
        assert METHODS[name].needs_binding
        assert METHODS[name].reply is not None


def test_a_method_that_needs_a_capability_is_required_by_it() -> None:
    for name, method in METHODS.items():
        if method.capability:
            assert name in REQUIRED_BY_CAPABILITY[method.capability]
    assert REQUIRED_BY_CAPABILITY[BYTES] == {"file/read", "file/write", "input/write"}
    assert REQUIRED_BY_CAPABILITY[PROCESS_START] == {"process/start", "process/list"}
