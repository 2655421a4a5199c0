"""Token and binding are fixed once, by success only."""

from __future__ import annotations

import pytest

from moorage.errors import InvalidArguments, LocalProtocolViolation, Refused
from moorage.protocol.binding import Binding, InitializeReply
from moorage.protocol.machines.pin import Pin
from moorage.protocol.secret import Secret

BINDING = Binding(version=4, root="/w", session="s")
REPLY = InitializeReply(version=4, root="/w")


def test_a_short_preset_token_is_refused() -> None:
    with pytest.raises(LocalProtocolViolation, match="31 characters"):
        Pin(Secret("x" * 31))


def test_a_failed_attempt_pins_nothing() -> None:
    pin = Pin()
    pin.begin("t" * 32)
    assert pin.token == Secret("t" * 32)
    pin.fail()
    assert pin.token is None
    assert pin.repeat(BINDING) is None


def test_one_attempt_at_a_time() -> None:
    pin = Pin()
    pin.begin("t" * 32)
    with pytest.raises(Refused, match="another initialization"):
        pin.begin("t" * 32)


def test_success_fixes_token_and_binding() -> None:
    pin = Pin()
    pin.begin("t" * 32)
    pin.succeed(BINDING, REPLY)
    assert pin.token == Secret("t" * 32)
    assert pin.repeat(Binding(version=4, root="/w", session="s")) is REPLY
    with pytest.raises(InvalidArguments, match="identity, environment would"):
        pin.repeat(Binding(version=4, root="/w", session="s", identity="i", environment={"A": "b"}))


def test_a_preset_token_stays_whatever_the_initialization_brings() -> None:
    pin = Pin(Secret("p" * 32))
    pin.begin("p" * 32)
    pin.succeed(BINDING, REPLY)
    assert pin.token == Secret("p" * 32)
