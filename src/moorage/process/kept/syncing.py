"""Bring records to the disk in groups: each is safe from the end of any process before that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

StartSoon = Callable[[Callable[[], Coroutine[Any, Any, object]]], None]


class DiskSync:
    """Syncs what was noted, a little later and once for many."""

    def __init__(
        self, sync: Callable[[Iterable[str]], None], start_soon: StartSoon, seconds: float
    ) -> None:
        """Sync nothing yet; ``sync`` may block and runs in a thread."""
        self._sync = sync
        self._start_soon = start_soon
        self._seconds = seconds
        self._noted: set[str] = set()
        self._closing = anyio.Event()
        self._idle: anyio.Event | None = None

    def note(self, process_id: str) -> None:
        """Have a record synced soon."""
        self._noted.add(process_id)
        if self._idle is None:
            self._idle = anyio.Event()
            self._start_soon(self._run)

    async def _run(self) -> None:
        with anyio.CancelScope(shield=True):
            while self._noted:
                with anyio.move_on_after(self._seconds):
                    await self._closing.wait()
                ids, self._noted = self._noted, set()
                try:
                    await to_thread.run_sync(self._sync, ids)
                except OSError as error:
                    logger.warning("records are not on disk yet: %s", error)
            if self._idle is not None:
                self._idle.set()
                self._idle = None

    async def aclose(self) -> None:
        """Return when everything is on disk."""
        self._closing.set()
        if self._idle is not None:
            await self._idle.wait()
