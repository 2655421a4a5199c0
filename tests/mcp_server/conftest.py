"""A stand-in for a Moorage session, and the server in front of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.lowlevel.server import Server

from moorage.errors import ExecutionError
from moorage.mcp_server.options import McpLimits, Options
from moorage.mcp_server.server import Place, build_server
from moorage.mcp_server.sessions import Sessions, ToolSession
from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ContentPart, ToolResult

Answer = Callable[[Mapping[str, Any]], Awaitable[ToolResult]]


def text_result(text: str, **structured: Any) -> ToolResult:
    return ToolResult(
        content=(ContentPart(type="text", text=text),), structured_content=structured or None
    )


class FakeSession:
    """Answers calls from a table, as ``moorage.Session`` would."""

    def __init__(self, session_id: str, answers: Mapping[str, Answer]) -> None:
        self.id = session_id
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers

    async def call(self, tool_name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        self.calls.append((tool_name, dict(arguments or {})))
        return await self._answers[tool_name](arguments or {})


class FakeHouse:
    """Opens fake sessions and remembers how it went with them."""

    def __init__(self) -> None:
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
        session = FakeSession(session_id or f"session-{len(self.sessions)}", self.answers)
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
def house() -> FakeHouse:
    return FakeHouse()


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
