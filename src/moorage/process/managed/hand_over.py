"""How long a caller waits for a command, and who goes on with one that takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from moorage.process.child import Child


class Successor(Protocol):
    """Who goes on with a command that takes longer than its caller waits for it."""

    def write(self, data: bytes) -> None:
        """Keep what the command printed, raw and in the order in which it came."""

    async def adopt(self, child: Child) -> str:
        """Take over the running child, and return the id under which it goes on.

        Raises:
            ExecutionError: it cannot; the child is still the caller's.
        """

    def discard(self) -> None:
        """Let go of what was kept: the command was not handed over."""


class HandOver(msgspec.Struct, frozen=True):
    """Who goes on with a command, and after how long; asked for once it is no short one."""

    find_successor: Callable[[], Successor]
    after_seconds: float


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """How long a command may take in the foreground, and whether it goes on after that."""

    timeout_seconds: float
    hand_over: HandOver | None = None
