"""The sessions under torture: a plain one, and one that stays and is open twice."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

import moorage
from moorage.app.application import worker_folder
from moorage.app.home import find_home
from moorage.app.sessions import stop_session
from moorage.backends.ending import running_pid
from moorage.host.session import Session
from torture import table

PLAIN = "plain"
NAMED = "named"

EXCUSED_SECONDS = 4.0
"""How long after a kill a call may still meet the worker that is gone."""


@dataclasses.dataclass
class Place:
    """One session, by every handle that is open on it."""

    name: str
    handles: list[Session]
    find_worker: Callable[[], int | None]
    crashes: int = 0
    _crashed_at: float = float("-inf")

    def crash(self) -> bool:
        """Kill the worker with SIGKILL; return whether there was one."""
        pid = self.find_worker()
        if pid is None:
            return False
        self.crashes += 1
        self._crashed_at = anyio.current_time()
        os.kill(pid, signal.SIGKILL)
        return True

    def was_crashed_since(self, begun: float) -> bool:
        """Return whether a kill explains that a call which began then lost its worker."""
        return self._crashed_at > begun - EXCUSED_SECONDS


@asynccontextmanager
async def sessions(home: Path, workspace: Path) -> AsyncIterator[list[Place]]:
    """Open the sessions; at the end also the worker that stays has ended."""
    layout = find_home(home)
    async with (
        moorage.open_session(workspace=workspace, home=home) as plain,
        moorage.open_session(workspace=workspace, home=home, name=NAMED) as named,
        moorage.open_session(session_id=NAMED, home=home) as again,
    ):
        folder = worker_folder(layout, named.id)

        def plain_worker() -> int | None:
            staying = running_pid(folder)
            found = [
                each.pid
                for each in table.children(os.getpid())
                if f"--state={home}" in each.words and each.pid != staying
            ]
            return found[0] if found else None

        yield [
            Place(PLAIN, [plain], plain_worker),
            Place(NAMED, [named, again], lambda: running_pid(folder)),
        ]
    await anyio.to_thread.run_sync(stop_session, layout, NAMED)
