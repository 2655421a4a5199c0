"""Names that are only a slip of the finger away from one that is missing; pure."""

from __future__ import annotations

from collections.abc import Iterable

MOST_EDITS = 3


def nearest_names(name: str, others: Iterable[str], count: int) -> list[str]:
    """Return the names within three edits of ``name``, nearest first."""
    wanted = name.casefold()
    found = []
    for other in others:
        if abs(len(other) - len(name)) <= MOST_EDITS:
            distance = _distance(wanted, other.casefold())
            # A short name is near to everything; half of it must remain.
            if distance <= min(MOST_EDITS, len(name) // 2):
                found.append((distance, other))
    return [other for _, other in sorted(found)[:count]]


def _distance(left: str, right: str) -> int:
    """Return how many letters must be put in, left out or replaced; more than three is four."""
    previous = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            current.append(
                min(
                    previous[column] + 1,
                    current[column - 1] + 1,
                    previous[column - 1] + (letter != other),
                )
            )
        if min(current) > MOST_EDITS:
            return MOST_EDITS + 1
        previous = current
    return previous[-1]
