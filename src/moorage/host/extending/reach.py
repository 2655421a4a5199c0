"""What one extension may use: bound to its session, gone when it is disabled.

Nothing that an extension says can bind it elsewhere: a location tells where it is, and grants
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from moorage.host.extending.notices import Notice, Notices
from moorage.host.processes import Processes, StartOptions
from moorage.host.results import SessionEvent
from moorage.protocol.processes import ProcessRecord
from moorage.protocol.tool_calls import ToolResult

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from moorage.policy.permission import PermissionMode


class BoundSession(Protocol):
    """What is used of the session."""

    processes: Processes

    @property
    def id(self) -> str:
        """Return its id."""

    @property
    def environment(self) -> str:
        """Return the name of its environment."""

    @property
    def backend(self) -> str:
        """Return the name of its backend."""

    @property
    def workspace(self) -> str:
        """Return the path of its workspace."""

    @property
    def mode(self) -> PermissionMode:
        """Return its permission mode."""

    async def call(self, tool_name: str, arguments: Mapping[str, Any], *, actor: str) -> ToolResult:
        """Call a tool."""

    def events(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[SessionEvent]]:
        """Open a stream of its events."""


class ProcessLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the processes of a session run."""

    session: str
    environment: str
    backend: str
    workspace: str
    mode: str


class AcceptedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that was started, and where."""

    record: ProcessRecord
    location: ProcessLocation


class ExtensionProcesses:
    """The background processes of one session, as an extension may use them."""

    def __init__(self, session: BoundSession, processes: Processes) -> None:
        """Bind it to the session."""
        self._session = session
        self._processes = processes
        self.list = processes.list
        self.get = processes.get
        self.find = processes.find
        self.read = processes.read
        self.follow = processes.follow
        self.write = processes.write
        self.stop = processes.stop

    async def start(
        self, command: str, *, cwd: str = "", tty: bool = True, **options: Unpack[StartOptions]
    ) -> AcceptedProcess:
        """Start a process in the session's environment, wherever that is.

        Raises:
            ProtocolMismatch: the worker does not offer ``process.start.v1``; nothing was sent.
        """
        record = await self._processes.start(command, cwd=cwd, tty=tty, **options)
        return AcceptedProcess(record=record, location=self.process_environment())

    def events(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[SessionEvent]]:
        """Open a stream of what happens in the session."""
        return self._session.events()

    def process_environment(self) -> ProcessLocation:
        """Return where processes are started."""
        session = self._session
        return ProcessLocation(
            session=session.id,
            environment=session.environment,
            backend=session.backend,
            workspace=session.workspace,
            mode=session.mode.value,
        )


class ExtensionHost:
    """What one extension may use: bound to one session, gone when it is disabled."""

    def __init__(
        self, name: str, session: BoundSession, tasks: TaskGroup, notices: Notices
    ) -> None:
        """Bind it."""
        self._name = name
        self._session = session
        self._notices = notices
        self._tasks = tasks
        self.processes = ExtensionProcesses(session, session.processes)

    def start_soon(
        self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object
    ) -> None:
        """Run ``work`` until it ends or the extension is disabled."""
        self._tasks.start_soon(work, *arguments)

    async def call(self, tool_name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a workspace tool as this extension; the session's record shows it as such."""
        return await self._session.call(tool_name, arguments, actor=f"extension:{self._name}")

    def tell(self, text: str, data: dict[str, Any] | None = None) -> None:
        """Have the model told something before its next turn."""
        self._notices.post(Notice(source=self._name, text=text, data=data or {}))
