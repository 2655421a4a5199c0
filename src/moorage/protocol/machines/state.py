"""The life of a connection as both machines see it: states and legal moves, as one table."""

from __future__ import annotations

from enum import StrEnum

from moorage.errors import LocalProtocolViolation


class State(StrEnum):
    """How far a connection has come."""

    OPENED = "opened"
    INITIALIZING = "initializing"
    READY = "ready"
    DEAD = "dead"
    """Its initialization failed or was cancelled: only a new connection helps."""
    ENDED = "ended"


_MOVES: dict[State, frozenset[State]] = {
    State.OPENED: frozenset({State.INITIALIZING, State.ENDED}),
    State.INITIALIZING: frozenset({State.READY, State.DEAD, State.ENDED}),
    State.READY: frozenset({State.ENDED}),
    State.DEAD: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}


def move(current: State, target: State) -> State:
    """Return ``target`` when the table allows it; staying is always allowed.

    Raises:
        LocalProtocolViolation: it does not.
    """
    if target is not current and target not in _MOVES[current]:
        raise LocalProtocolViolation(
            f"a connection that is {current.value} cannot become {target.value}."
        )
    return target


_WHY_NOT_READY: dict[State, str] = {
    State.OPENED: "nothing runs before a successful initialize.",
    State.INITIALIZING: "nothing runs before a successful initialize.",
    State.READY: "",
    State.DEAD: "the initialization of this connection failed; open a new connection.",
    State.ENDED: "the connection has ended; open a new connection.",
}


def why_not_ready(state: State) -> str:
    """Return why no operation runs in ``state``; empty when operations do run."""
    return _WHY_NOT_READY[state]
