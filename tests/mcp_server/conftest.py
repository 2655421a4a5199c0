"""A stand-in for a Moorage session, and the server in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.lowlevel.server import Server

from moorage.errors import ExecutionError, InvalidArguments
from moorage.host.completions import Completions
from moorage.host.events import EventFeed
from moorage.host.extending.notices import Notices
from moorage.host.results import SessionEvent
from moorage.mcp_server.options import McpLimits, Options
from moorage.mcp_server.server import Place, build_server
from moorage.mcp_server.sessions import Sessions, ToolSession
from moorage.policy.permission import PermissionMode
from moorage.protocol.processes import EventType, OutputSnapshot, ProcessEvent, ProcessRecord
from moorage.protocol.tool_calls import ContentPart, ToolResult

Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


def text_result(text: str, **structured: Any) -> ToolResult:
    return ToolResult(
        content=(ContentPart(type="text", text=text),), structured_content=structured or None
    )


class FakeProcesses:
    """Background processes that are only records; a test changes them."""

    def __init__(self) -> None:
        self.records: dict[str, ProcessRecord] = {}
        self.acknowledged: list[str] = []
        self.refusal: ExecutionError | None = None

    async def list(self) -> tuple[ProcessRecord, ...]:
        if self.refusal is not None:
            raise self.refusal
        return tuple(self.records.values())

    async def read(self, process_id: str, **_: Any) -> OutputSnapshot:
        if process_id not in self.records:
            raise InvalidArguments(f"No background process has the id {process_id!r}.")
        return OutputSnapshot(
            process=self.records[process_id],
            output="what it printed\n",
            truncated=False,
            start_offset=0,
            end_offset=16,
            total_bytes=16,
            timed_out=False,
            duration_ns=0,
        )

    async def acknowledge(self, process_id: str, *, consumer: str) -> None:
        self.acknowledged.append(process_id)
        self._change(process_id, completion_consumed_by=consumer)

    def _change(self, process_id: str, **changed: Any) -> ProcessRecord:
        record = msgspec.structs.replace(self.records[process_id], **changed)
        self.records[process_id] = record
        return record


class FakeSession:
    """Answers calls from a table, as ``moorage.Session`` would."""

    def __init__(self, session_id: str, answers: Mapping[str, Answer], folder: Path) -> None:
        self.id = session_id
        self.processes = FakeProcesses()
        self.extensions = SimpleNamespace(notices=Notices())
        self._feed = EventFeed()
        environment = SimpleNamespace(is_provisioned=True, is_closed=False)
        self._completions = Completions(environment, self.processes, folder / f"{session_id}.json")
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers

    async def call(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        self.calls.append((tool_name, dict(arguments or {})))
        return await self._answers[tool_name](arguments or {})

    def completions(self) -> Completions:
        return self._completions

    def events(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[SessionEvent]]:
        return self._feed.open()

    def start(self, process_id: str) -> None:
        """Begin a background process and tell of it."""
        self.processes.records[process_id] = ProcessRecord(
            id=process_id,
            owner_kind="main_agent",
            owner_id=self.id,
            lifecycle="session",
            status="running",
            pid=4711,
            pgid=4711,
            log_path="",
            command="make all",
            cwd="/srv/project",
            started_at="2026-01-31T00:00:00Z",
            updated_at="2026-01-31T00:00:00Z",
        )
        self._tell("started", process_id)

    def end(self, process_id: str) -> None:
        """End a background process and tell of it."""
        ended = {"status": "stopped", "exit_code": 0, "terminal_cause": "natural_exit"}
        self.processes._change(process_id, **ended)
        self._tell("stopped", process_id)

    def _tell(self, kind: EventType, process_id: str) -> None:
        event = ProcessEvent(type=kind, process=self.processes.records[process_id])
        self._feed.announce_process(event)
        self._completions.look()


class FakeHouse:
    """Opens fake sessions and remembers how it went with them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.answers: dict[str, Answer] = {"bash": self._echo}
        self.sessions: list[FakeSession] = []
        self.closed: list[str] = []
        self.asked_for: list[str | None] = []
        self.refusal: ExecutionError | None = None
        self.failure_at_close: Exception | None = None
        self.hang_at_close = False
        self.changed = anyio.Event()

    def opener(self, session_id: str | None) -> AbstractAsyncContextManager[ToolSession]:
        return self._open(session_id)

    @asynccontextmanager
    async def _open(self, session_id: str | None) -> AsyncIterator[ToolSession]:
        self.asked_for.append(session_id)
        if self.refusal is not None:
            raise self.refusal
        session = FakeSession(
            session_id or f"session-{len(self.sessions)}", self.answers, self._folder
        )
        self.sessions.append(session)
        # A task group of its own, as a real session has: it must be closed where it was opened.
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep_forever)
                yield session
                tasks.cancel_scope.cancel()
            if self.hang_at_close:
                await anyio.sleep_forever()
        finally:
            self.closed.append(session.id)
            self._tell()
        if self.failure_at_close is not None:
            raise self.failure_at_close

    async def until_closed(self, count: int) -> None:
        while len(self.closed) < count:
            await self.changed.wait()

    def answer(self, tool_name: str, result: ToolResult | ExecutionError) -> None:
        async def give(_: Mapping[str, Any]) -> ToolResult:
            if isinstance(result, ExecutionError):
                raise result
            return result

        self.answers[tool_name] = give

    def hang(self, tool_name: str) -> Hanging:
        hanging = Hanging()
        self.answers[tool_name] = hanging
        return hanging

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def _echo(self, arguments: Mapping[str, Any]) -> ToolResult:
        return text_result(f"ran {arguments.get('command', '')}", outcome="exited", exit_code=0)


class Hanging:
    """A tool that runs until it is released or cancelled."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.released = anyio.Event()
        self.cancelled = anyio.Event()

    async def __call__(self, _: Mapping[str, Any]) -> ToolResult:
        self.begun.set()
        try:
            await self.released.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return text_result("released")


PLACE = Place(environment="local", workspace="/srv/project", mode=PermissionMode.STANDARD)


@pytest.fixture
def house(tmp_path: Path) -> FakeHouse:
    return FakeHouse(tmp_path)


@pytest.fixture
def place() -> Place:
    return PLACE


@pytest.fixture
def serving(house: FakeHouse) -> Callable[..., Server[Sessions]]:
    """Return a maker of servers in front of the fake house; its arguments are those of Options."""

    def make(*, idle_seconds: float | None = None, **options: Any) -> Server[Sessions]:
        limits = McpLimits(progress_interval_seconds=0.005, **options.pop("limits", {}))
        return build_server(
            Options(limits=limits, **options),
            house.opener,
            place=PLACE,
            shared_idle_seconds=idle_seconds,
        )

    return make
