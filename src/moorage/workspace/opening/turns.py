"""One writer at a time for each real file, among the calls of one worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class FileTurns:
    """Who works on which file in a thread.

    Work done inline in the event loop needs no turn of its own: nothing runs beside it. It waits
    for the threads only.
    """

    def __init__(self) -> None:
        """Begin with no file in work."""
        self._busy: dict[str, anyio.Event] = {}

    async def wait(self, absolute: str) -> None:
        """Return when nobody works on the file; no checkpoint lies between that and the return."""
        while (event := self._busy.get(absolute)) is not None:
            await event.wait()

    @contextmanager
    def hold(self, absolute: str) -> Iterator[None]:
        """Keep others waiting; to be entered right after ``wait``."""
        event = self._busy[absolute] = anyio.Event()
        try:
            yield
        finally:
            del self._busy[absolute]
            event.set()
