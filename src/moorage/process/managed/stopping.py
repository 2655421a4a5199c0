"""End managed processes: on request, softly, then hard, and until nothing of them is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from moorage.errors import ShutdownIncomplete
from moorage.process.managed import survivors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.process.managed.following import Keeper
    from moorage.process.managed.ledger import Ledger
    from moorage.process.managed.live import Live


class Stopper:
    """Stops the processes of one ledger."""

    def __init__(self, ledger: Ledger, keeper: Keeper) -> None:
        """Stop nothing yet."""
        self._ledger = ledger
        self._keeper = keeper
        self._limits = ledger.limits

    async def stop(self, live: Live, *, is_forced: bool = False) -> None:
        """End a process and all that descends from it; one that has ended stays as it is.

        Raises:
            ShutdownIncomplete: something of it survived SIGKILL; it counts as running.
        """
        grace = 0.0 if is_forced else self._limits.stop_grace_seconds
        if is_forced and live.is_stop_requested and live.child is not None:
            # Whoever is stopping it softly hears of its end at once.
            await live.child.end(grace)
        async with live.stopping:
            if live.record.is_terminal:
                return
            if live.is_survivor:
                await self._stop_survivor(live, grace)
            else:
                await self._stop_child(live, grace)

    async def _stop_child(self, live: Live, grace_seconds: float) -> None:
        child = live.child
        if child is None or not child.is_running:
            # It ended by itself; only its receipt is missing.
            await live.ended.wait()
            return
        self._mark(live)
        try:
            await child.end(grace_seconds)
        except ShutdownIncomplete as error:
            self._unmark(live, error.message)
            raise
        await live.ended.wait()

    async def _stop_survivor(self, live: Live, grace_seconds: float) -> None:
        top = survivors.find(live.record)
        if top is None:
            await self._keeper.retire_unseen(live)
            return
        self._mark(live)
        family = survivors.Family(top)
        left = await family.end(grace_seconds, self._limits.kill_seconds)
        if left:
            message = f"{left} processes of {live.record.id} survived SIGKILL."
            self._unmark(live, message)
            raise ShutdownIncomplete(message)
        await live.ended.wait()

    def _mark(self, live: Live) -> None:
        live.is_stop_requested = True
        self._keeper.cancel_writers(live)
        self._ledger.change(live, status="stopping", terminal_cause="requested_stop")

    def _unmark(self, live: Live, problem: str) -> None:
        live.is_stop_requested = False
        self._ledger.change(live, status="running", terminal_cause="", last_error=problem)

    async def stop_all(self, lives: Iterable[Live]) -> None:
        """End several processes at once.

        Raises:
            ShutdownIncomplete: something survived SIGKILL; the others were ended.
        """
        problems: list[str] = []

        async def stop(live: Live) -> None:
            try:
                await self.stop(live)
            except ShutdownIncomplete as error:
                problems.append(f"{live.record.id}: {error.message}")

        async with anyio.create_task_group() as tasks:
            for live in lives:
                tasks.start_soon(stop, live)
        if problems:
            raise ShutdownIncomplete(
                f"{len(problems)} background processes could not be ended: {' '.join(problems)}",
                hint="They end when the file system or device they wait for answers.",
            )
