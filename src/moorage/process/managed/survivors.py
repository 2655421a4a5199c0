"""Processes that outlived the worker which started them: watched, found again, and ended.

Nobody here is their parent, so each signal goes to one that was proven to be meant: by its start,
and by the marker that everything of a call carries.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import anyio

from moorage.confine.nursery import tree
from moorage.process.managed import identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from moorage.confine.nursery.tree import Process
    from moorage.process.managed.live import Live
    from moorage.protocol.processes import ProcessRecord

TICK_SECONDS = 0.01
"""Between two looks at a family on its way out."""


def find(record: ProcessRecord) -> Process | None:
    """Return the process that a record means, or ``None`` when it cannot be proven to live."""
    return identity.find(record.pid, record.pgid, record.process_start_time)


def explain(record: ProcessRecord) -> str:
    """Return why a process that should run is taken for ended."""
    if record.pid > 1 and identity.identity_of(record.pid) not in {"", record.process_start_time}:
        return (
            f"Its identity does not match: pid {record.pid} is another process now. "
            "Nothing was signalled."
        )
    return "It ended while no worker could see how; its exit code is not known."


class Watch:
    """Waits for the ends of survivors."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._scopes: set[anyio.CancelScope] = set()

    async def until_gone(self, live: Live, gone: Callable[[Live], Awaitable[None]]) -> None:
        """Wait for the end of a survivor, and tell; closing the watch ends this without a word."""
        try:
            handle = os.pidfd_open(live.record.pid)
        except OSError:
            await gone(live)
            return
        try:
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                # The handle holds the pid's owner fast, so what is looked at now is what it means.
                while find(live.record) is not None:
                    await anyio.wait_readable(handle)
            self._scopes.discard(scope)
        finally:
            os.close(handle)
        if not scope.cancelled_caught:
            await gone(live)

    def close(self) -> None:
        """Watch no more."""
        for scope in self._scopes:
            scope.cancel()


class Family:
    """A survivor and all that descends from it."""

    def __init__(self, top: Process) -> None:
        """Take the marker that everything of its call carries."""
        self._top = top
        self._marker = tree.marker_of(top.pid)
        self._known = {(top.pid, top.started)}

    def members(self) -> list[Process]:
        """Return everybody of it who lives; what was once known to belong to it goes on to."""
        table = tree.snapshot()
        children = tree.by_parent(table)
        found: dict[int, Process] = {}
        for process in table.values():
            if self._is_member(process, table):
                for each in tree.with_descendants(process, children):
                    found[each.pid] = each
        self._known |= {(each.pid, each.started) for each in found.values()}
        return [each for each in found.values() if each.is_alive and each.pid != os.getpid()]

    def _is_member(self, process: Process, table: tree.Table) -> bool:
        if (process.pid, process.started) in self._known:
            return True
        if self._marker and tree.marker_of(process.pid) == self._marker:
            return True
        top = table.get(self._top.pid)
        is_top_there = top is not None and top.started == self._top.started
        return is_top_there and self._top.pid in {process.group, process.session}

    async def end(self, grace_seconds: float, kill_seconds: float) -> int:
        """End everybody, softly and then hard; return how many survived."""
        members = self.members()
        for number in (signal.SIGTERM, signal.SIGCONT) if grace_seconds > 0 else ():
            tree.send_signals(members, number)
        members = await self._until_gone(grace_seconds, kill=False)
        if members:
            members = await self._until_gone(kill_seconds, kill=True)
        return len(members)

    async def _until_gone(self, seconds: float, *, kill: bool) -> list[Process]:
        members = self.members()
        with anyio.move_on_after(seconds):
            while members:
                if kill:
                    tree.send_signals(members, signal.SIGKILL)
                await anyio.sleep(TICK_SECONDS)
                members = self.members()
        return members
