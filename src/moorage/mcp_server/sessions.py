"""Which Moorage session serves which MCP session, and who owns it.

A Moorage session is opened by the first call that needs it, so a client that only lists the tools
starts no environment. A task of its own owns it until it is closed; calls come from other tasks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream

from moorage.errors import ConnectionLost, ExecutionError
from moorage.host.completions import Completions
from moorage.host.extending.enabling import Extensions
from moorage.host.processes import Processes
from moorage.host.results import ProcessChanged, SessionEvent
from moorage.mcp_server.news import News
from moorage.mcp_server.options import McpLimits
from moorage.mcp_server.process_resources import news_of
from moorage.protocol.tool_calls import ContentPart, ToolResult

logger = logging.getLogger(__name__)


class ToolSession(Protocol):
    """What the server needs of ``moorage.Session``."""

    @property
    def id(self) -> str:
        """Return the session's id."""

    @property
    def processes(self) -> Processes:
        """Return its background processes."""

    async def call(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Run one workspace tool."""

    @property
    def extensions(self) -> Extensions:
        """Return its extensions."""

    def completions(self) -> Completions:
        """Return how its background processes ended."""

    def events(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[SessionEvent]]:
        """Open a stream of what happens in it."""


Opener = Callable[[str | None], AbstractAsyncContextManager[ToolSession]]
"""Opens a new session, or the one with the given id again."""


class SessionBinding:
    """The one Moorage session behind one MCP session."""

    def __init__(
        self,
        opener: Opener,
        owners: TaskGroup,
        *,
        limits: McpLimits,
        idle_seconds: float | None = None,
    ) -> None:
        """Keep how to open the session and the task group that its owner will run in.

        With ``idle_seconds`` a session without any call for so long is closed until the next one.
        """
        self._opener = opener
        self._owners = owners
        self._limits = limits
        self._idle_seconds = math.inf if idle_seconds is None else idle_seconds
        self._opening = anyio.Lock()
        self._slots = anyio.Semaphore(limits.concurrent_calls)
        self.news = News()
        """Who is told of its background processes."""
        self._owned: _OwnedSession | None = None
        self._session_id: str | None = None
        self._is_closed = False

    async def call(self, tool_name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one tool in the session, which is opened first when it is not open.

        The result also tells what nobody was told of: how background processes ended, and what
        extensions have to say.

        Raises:
            ExecutionError: whatever opening the session or the call itself raises.
        """
        async with self._slots:
            owned = await self._open()
            with owned.held():
                session = owned.session
                return await _with_news(await session.call(tool_name, arguments), session)

    @property
    def processes(self) -> Processes | None:
        """Return the background processes of the session, or ``None`` while it is not open."""
        owned = self._owned
        return None if owned is None or owned.is_ending else owned.session.processes

    async def aclose(self) -> None:
        """End the session, within the grace; a later call is an error."""
        self._is_closed = True
        if self._owned is not None:
            await self._owned.end(self._limits.close_grace_seconds)

    async def _open(self) -> _OwnedSession:
        async with self._opening:
            if self._is_closed:
                raise ConnectionLost("this MCP session has ended.", hint="Connect again.")
            if self._owned is None or self._owned.is_ending:
                owned = _OwnedSession(self._opener(self._session_id), self._idle_seconds, self.news)
                await self._owners.start(owned.own)
                self._owned, self._session_id = owned, owned.session.id
                logger.info("opened session %s", owned.session.id)
            return self._owned


class _OwnedSession:
    """A session together with the task that opened it and will close it."""

    def __init__(
        self,
        opening: AbstractAsyncContextManager[ToolSession],
        idle_seconds: float,
        news: News,
    ) -> None:
        self.session: ToolSession
        self._news = news
        self._opening = opening
        self._idle_seconds = idle_seconds
        self._idle = anyio.CancelScope()
        self._asked_to_end = anyio.Event()
        self._ended = anyio.Event()
        self._holds = 0

    @property
    def is_ending(self) -> bool:
        """Return whether no further call may use the session."""
        return self._ended.is_set() or self._asked_to_end.is_set() or self._idle.cancel_called

    async def own(self, *, task_status: TaskStatus[None]) -> None:
        """Open the session, keep it until it is asked to end or idle, and close it."""
        is_open = False
        try:
            async with self._opening as self.session:
                is_open = True
                async with anyio.create_task_group() as telling:
                    await telling.start(self._tell)
                    task_status.started()
                    with self._idle:
                        await self._asked_to_end.wait()
                    telling.cancel_scope.cancel()
        except ExecutionError as error:
            if not is_open:
                raise
            logger.warning("session %s did not end as it should: %s", self.session.id, error)
        except Exception:
            if not is_open:
                raise
            # The other clients' sessions must outlive this one.
            logger.exception("session %s failed", self.session.id)
        finally:
            self._ended.set()

    async def _tell(self, *, task_status: TaskStatus[None]) -> None:
        """Tell the clients what happens to background processes."""
        async with self.session.events() as events:
            task_status.started()
            async for event in events:
                if isinstance(event, ProcessChanged):
                    await self._news.publish(news_of(event))

    async def end(self, grace_seconds: float) -> None:
        """Ask the owner to close the session and wait until it has, or the grace is over."""
        self._asked_to_end.set()
        with anyio.move_on_after(grace_seconds, shield=True):
            await self._ended.wait()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the session from being idle while a call runs."""
        self._holds += 1
        self._idle.deadline = math.inf
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                self._idle.deadline = anyio.current_time() + self._idle_seconds


async def _with_news(result: ToolResult, session: ToolSession) -> ToolResult:
    """Return the result with what is owed to the model, which thereby counts as told.

    A client never says whether its model has read a result; one that was sent must do.
    """
    completed = await _ends(session.completions())
    noticed = [notice.text for notice in session.extensions.notices.take()]
    texts = [*completed, *noticed]
    if not texts:
        return result
    structured = result.structured_content
    if structured is not None:
        structured |= {"completions": completed} if completed else {}
        structured |= {"notices": noticed} if noticed else {}
    content = (*result.content, *(ContentPart(type="text", text=text) for text in texts))
    return msgspec.structs.replace(result, content=content, structured_content=structured)


async def _ends(completions: Completions) -> list[str]:
    """Return how background processes ended; a result must not be lost for their sake."""
    try:
        told = await completions.take_news()
        await completions.acknowledge(*told)
    except ExecutionError as error:
        logger.warning("how background processes ended cannot be told now: %s", error)
        return []
    return [completion.text for completion in told]


class Sessions:
    """The bindings of one server: one per MCP session, one for clients that have none."""

    def __init__(
        self,
        opener: Opener,
        owners: TaskGroup,
        *,
        limits: McpLimits,
        idle_seconds: float | None = None,
    ) -> None:
        """Keep what every binding needs; ``idle_seconds`` is for the shared binding."""
        self._opener = opener
        self._owners = owners
        self._limits = limits
        self._shared = SessionBinding(opener, owners, limits=limits, idle_seconds=idle_seconds)
        self._bindings: dict[str, SessionBinding] = {}

    def shared(self) -> SessionBinding:
        """Return the binding of a client that names no MCP session.

        Over standard streams that is the one client there is; over HTTP it serves the protocol
        revisions without sessions, whose calls all share one Moorage session.
        """
        return self._shared

    def of(self, mcp_session_id: str) -> SessionBinding | None:
        """Return the binding of an MCP session, if it has one yet."""
        return self._bindings.get(mcp_session_id)

    def bind(self, mcp_session_id: str) -> SessionBinding:
        """Make the binding of a new MCP session."""
        binding = SessionBinding(self._opener, self._owners, limits=self._limits)
        self._bindings[mcp_session_id] = binding
        return binding

    async def end(self, mcp_session_id: str) -> None:
        """Close the session of an MCP session that has ended."""
        binding = self._bindings.pop(mcp_session_id, None)
        if binding is not None:
            await binding.aclose()

    async def aclose(self) -> None:
        """Close every session, all within one grace."""
        async with anyio.create_task_group() as closing:
            for binding in (self._shared, *self._bindings.values()):
                closing.start_soon(binding.aclose)
        self._bindings.clear()


@asynccontextmanager
async def open_sessions(
    opener: Opener, *, limits: McpLimits, idle_seconds: float | None = None
) -> AsyncIterator[Sessions]:
    """Own the sessions of a server for as long as it serves."""
    async with anyio.create_task_group() as owners:
        sessions = Sessions(opener, owners, limits=limits, idle_seconds=idle_seconds)
        try:
            yield sessions
        finally:
            with anyio.CancelScope(shield=True):
                await sessions.aclose()
            owners.cancel_scope.cancel()
