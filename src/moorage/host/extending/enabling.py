"""Optional extensions of a session: their tools, and their words to the model.

An extension runs on the host and acts in the session's environment alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from moorage.errors import ConfigError
from moorage.host.extending.notices import Notices
from moorage.host.extending.reach import BoundSession, ExtensionHost
from moorage.protocol.tool_calls import ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolSpec

logger = logging.getLogger(__name__)

ToolHandler = Callable[[Any], Awaitable[ToolResult]]
"""Answers one tool; it is given the decoded arguments."""


class Extension(Protocol):
    """What can be enabled in a session.

    ``specs`` are its tools. ``guidance`` is what a model should know to use them.
    """

    name: str
    guidance: str
    specs: tuple[ToolSpec, ...]

    async def open(self, host: ExtensionHost) -> Mapping[str, ToolHandler]:
        """Begin in a session, and return what answers each tool."""

    async def aclose(self) -> None:
        """End what was started in the session."""


class Extensions:
    """The extensions of one session, none at first."""

    def __init__(self, session: BoundSession, tasks: TaskGroup) -> None:
        """Keep whose they are, and where their owners run."""
        self._session = session
        self._tasks = tasks
        self._enabled: dict[str, _Enabled] = {}
        self.notices = Notices()
        """What they say to the model."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools of those that are enabled."""
        return tuple(spec for each in self._enabled.values() for spec in each.extension.specs)

    @property
    def guidance(self) -> str:
        """Return what a model should know of those that are enabled."""
        return "\n\n".join(each.extension.guidance for each in self._enabled.values())

    async def enable(self, extension: Extension) -> None:
        """Add its tools and its guidance.

        Raises:
            ConfigError: one of this name, or with a tool of the same name, is there already.
        """
        known = {spec.name for spec in self.specs} | WORKSPACE_TOOLS.keys()
        if extension.name in self._enabled or known & {spec.name for spec in extension.specs}:
            raise ConfigError(f"the extension {extension.name}, or a tool of it, is there already.")
        enabled = _Enabled(extension)
        await self._tasks.start(enabled.own, self._session, self.notices)
        self._enabled[extension.name] = enabled

    async def disable(self, name: str) -> None:
        """Remove its tools and its guidance, and end what it started.

        Raises:
            ConfigError: none of this name is enabled.
        """
        if name not in self._enabled:
            raise ConfigError(f"no extension {name!r} is enabled in this session.")
        await self._enabled.pop(name).end()

    async def aclose(self) -> None:
        """Disable all of them, the last one first."""
        try:
            while self._enabled:
                await self.disable(next(reversed(self._enabled)))
        finally:
            self.notices.close()

    def handler(self, tool_name: str) -> ToolHandler | None:
        """Return what answers a tool of an extension, if one has it."""
        for each in self._enabled.values():
            if tool_name in each.handlers:
                return each.handlers[tool_name]
        return None


class _Enabled:
    """One extension, with the task that owns what it runs."""

    def __init__(self, extension: Extension) -> None:
        self.extension = extension
        self.handlers: Mapping[str, ToolHandler] = {}
        self._asked_to_end = anyio.Event()
        self._ended = anyio.Event()

    async def own(
        self, session: BoundSession, notices: Notices, *, task_status: TaskStatus[None]
    ) -> None:
        is_open = False
        try:
            async with anyio.create_task_group() as tasks:
                host = ExtensionHost(self.extension.name, session, tasks, notices)
                self.handlers = await self.extension.open(host)
                is_open = True
                task_status.started()
                await self._asked_to_end.wait()
                tasks.cancel_scope.cancel()
        except Exception:
            if not is_open:
                raise
            # A broken extension costs its tools; the session goes on.
            logger.exception("the extension %s failed", self.extension.name)
            self.handlers = {}
        finally:
            self._ended.set()

    async def end(self) -> None:
        try:
            await self.extension.aclose()
        finally:
            self._asked_to_end.set()
            await self._ended.wait()
