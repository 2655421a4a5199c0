"""Where a check works: sessions in the environment under test."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import anyio

from moorage.errors import ToolFailed
from moorage.host.session import Session

POLL_SECONDS = 0.02


class OpenSession(Protocol):
    """Opens a session in the environment under test.

    ``changes`` are fields of the profile that a check adds, such as ``{"persistent": True}``;
    ``options`` are those of :func:`moorage.open_session`: ``mode``, ``name``, ``session_id``. All
    calls of one check see the same Moorage home, and no other check's files.
    """

    def __call__(
        self, changes: dict[str, Any] | None = None, /, **options: Any
    ) -> AbstractAsyncContextManager[Session]:
        """Return the session's context."""
        ...


class Place:
    """What a check is given."""

    def __init__(self, open_session: OpenSession, mode: str = "standard") -> None:
        """Open sessions by ``open_session``, in ``mode`` unless a check names another one."""
        self._open_session = open_session
        self.mode = mode
        """The narrowest mode in which commands run here."""

    @asynccontextmanager
    async def session(
        self, changes: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[Session]:
        """Open a session and close it at the end."""
        if "session_id" not in options:
            options = {"mode": self.mode} | options
        async with self._open_session(dict(changes or {}), **options) as session:
            yield session

    async def sever(self, session: Session) -> None:
        """Kill the way to the worker, as when a network or a program dies."""
        connection: Any = await session._environment.connection()  # noqa: SLF001 - no user may
        os.killpg(connection._transport.pid, signal.SIGKILL)  # noqa: SLF001


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until the condition holds; the limit of the check bounds it."""
    while not await condition():  # noqa: ASYNC110 - what happens there tells nobody here
        await anyio.sleep(POLL_SECONDS)


async def appears(session: Session, path: str) -> None:
    """Wait until a file is there and holds something."""

    async def is_there() -> bool:
        try:
            return bool((await session.read_file(path)).text)
        except ToolFailed:
            return False

    await until(is_there)


async def names_in(session: Session, path: str = ".") -> list[str]:
    """Return the names in a folder, in order."""
    listing = (await session.list_files(path)).structured_content or {}
    return sorted(entry["name"] for entry in listing.get("entries", ()))
