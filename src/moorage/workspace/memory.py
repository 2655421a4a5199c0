"""Remember what a function made of a short text; what it makes of a long one is never kept.

A model chooses the texts, so both their number and their length must have a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

LONGEST_PATH = 4096
"""No path that the system takes is longer."""

LONGEST_COMMAND = 8 * 1024
"""A longer command carries a file or a script in it, and does not come twice."""


def remembered(*, count: int, longest: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Return a decorator that keeps the last ``count`` results for texts up to ``longest``."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        kept = lru_cache(maxsize=count)(function)

        @wraps(function)
        def ask(text: str) -> T:
            return kept(text) if len(text) <= longest else function(text)

        return ask

    return decorate
