"""The states of a connection and the moves between them."""

from __future__ import annotations

import itertools

import pytest

from moorage.errors import LocalProtocolViolation
from moorage.protocol.machines.state import State, move, why_not_ready

LEGAL = {
    (State.OPENED, State.INITIALIZING),
    (State.INITIALIZING, State.READY),
    (State.INITIALIZING, State.DEAD),
    *((state, State.ENDED) for state in State),
    *((state, state) for state in State),
}


@pytest.mark.parametrize(("current", "target"), list(itertools.product(State, State)))
def test_only_the_moves_of_the_table_are_legal(current: State, target: State) -> None:
    if (current, target) in LEGAL:
        assert move(current, target) is target
    else:
        with pytest.raises(LocalProtocolViolation, match=current.value):
            move(current, target)


def test_only_a_ready_connection_has_no_reason_to_refuse() -> None:
    assert [state for state in State if not why_not_ready(state)] == [State.READY]
