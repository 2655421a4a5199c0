"""One process as its manager knows it: its record, its log, and while it lives what holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio
import msgspec

from moorage.confine.plan import Plan
from moorage.errors import InvalidArguments
from moorage.process.kept.window import Window, WindowReader
from moorage.protocol.processes import CompletionMode, Lifecycle, OwnerKind

if TYPE_CHECKING:
    from moorage.process.child import Child
    from moorage.process.kept.log import OutputLog
    from moorage.process.kept.window import PlaceMasker
    from moorage.process.managed.limits import ManagedLimits
    from moorage.protocol.processes import ProcessRecord


class UnknownProcess(InvalidArguments):
    """No process of this session has the id; nothing happened."""


class Owner(msgspec.Struct, frozen=True):
    """On whose behalf a process runs."""

    kind: OwnerKind
    actor: str
    session: str


def owner_of(actor: str, session: str) -> Owner:
    """Return whom an actor of a session is: the session itself acts for its main agent."""
    return Owner("main_agent" if actor == session else "subagent", actor, session)


class StartSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to start in the background, where, and for whom.

    ``cwd_fd`` wins over ``cwd`` and stays the caller's to close.
    """

    command: str
    cwd: str
    plan: Plan
    owner: Owner
    cwd_fd: int | None = None
    variables: Mapping[str, str] = {}
    lifecycle: Lifecycle = "session"
    completion_mode: CompletionMode = "resume"
    tty: bool = True
    operation_id: str = ""
    size: tuple[int, int] | None = None
    """Rows and columns of the terminal."""


class _Waiter:
    """Somebody who waits for a log to grow up to an offset, or for its process to end."""

    __slots__ = ("event", "needed")

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.event = anyio.Event()


class Live:
    """A process, running or ended."""

    def __init__(self, record: ProcessRecord, log: OutputLog, limits: ManagedLimits) -> None:
        """Hold nothing but what is known about it."""
        self.record = record
        self.log = log
        self.child: Child | None = None
        self.plan: Plan | None = None
        self.stdin_fd = -1
        self.is_stop_requested = False
        self.is_survivor = False
        self.ended = anyio.Event()
        self.stopping = anyio.Lock(fast_acquire=True)
        self.writing = anyio.Lock(fast_acquire=True)
        self.writers: set[anyio.CancelScope] = set()
        self._window = WindowReader(log, limits.context_bytes)
        self._look_seconds = limits.look_seconds
        self._waiters: list[_Waiter] = []
        if record.is_terminal:
            self.ended.set()

    # Growing.

    def grown(self) -> None:
        """Wake whoever waited for so much output."""
        for waiter in self._waiters:
            if self.log.total >= waiter.needed:
                waiter.event.set()

    def end(self) -> None:
        """Wake everybody."""
        self.ended.set()
        for waiter in self._waiters:
            waiter.event.set()

    async def grow(self, needed: int, deadline: float) -> bool:
        """Wait until the log reaches an offset, the process ends or time is up; tell which not."""
        waiter = _Waiter(needed)
        self._waiters.append(waiter)
        try:
            with anyio.CancelScope(deadline=deadline):
                while self.log.total < needed and not self.ended.is_set():
                    await self._await(waiter)
        finally:
            self._waiters.remove(waiter)
        return self.log.total >= needed

    async def _await(self, waiter: _Waiter) -> None:
        if not self.is_survivor:
            await waiter.event.wait()
            return
        # Its launcher writes the log, and nobody tells of that.
        with anyio.move_on_after(self._look_seconds):
            await waiter.event.wait()
        self.log.look()

    # Reading.

    def window(self, masker: PlaceMasker, offset: int | None, max_bytes: int) -> Window:
        """Return what is there now, from an offset on, or the newest bytes."""
        is_over = self.ended.is_set()
        if offset is None:
            return self._window.tail(masker, max_bytes, is_over=is_over)
        return self._window.at(masker, offset, max_bytes, is_over=is_over)
