"""The command line in this process, with a session that a test scripts."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import moorage
from moorage.cli.command_line import run_command_line
from moorage.errors import ExecutionError
from moorage.host.results import CommandResult, command_result
from moorage.protocol.tool_calls import ContentPart, ToolResult


@dataclass(frozen=True)
class Ended:
    """How a command line ended and what it wrote."""

    code: int
    out: bytes
    err: bytes

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.out)


class ScriptedSession:
    """Stands in for a session: remembers what it was asked and answers what a test scripted."""

    id = "s-scripted"
    environment = "local"

    def __init__(self) -> None:
        self.opened_with: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []
        self.result: CommandResult = command_result(
            {"outcome": "exited", "exit_code": 0, "stdout": "", "stderr": ""}
        )
        self.tool_result = ToolResult(content=(ContentPart(type="text", text="done"),))
        self.error: BaseException | None = None
        self.closing_error: Exception | None = None
        self.files: dict[str, bytes] = {}
        self.piece_bytes = 4
        self.processes = SimpleNamespace(outlive_host=False)
        self.reading_error: ExecutionError | None = None

    def ends(self, **envelope: Any) -> None:
        self.result = command_result({"outcome": "exited", "exit_code": 0, **envelope})

    async def run(self, command: str, **options: Any) -> CommandResult:
        self.asked.append((command, options))
        if self.error is not None:
            raise self.error
        return self.result

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        self.asked.append((name, arguments))
        if self.error is not None:
            raise self.error
        return self.tool_result

    async def read_pieces(self, path: str) -> AsyncIterator[bytes]:
        for start in range(0, len(self.files.get(path, b"")), self.piece_bytes):
            yield self.files[path][start : start + self.piece_bytes]
        if self.reading_error is not None:
            raise self.reading_error


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> ScriptedSession:
    scripted = ScriptedSession()

    @asynccontextmanager
    async def open_session(
        environment: str | None = None, **options: Any
    ) -> AsyncIterator[ScriptedSession]:
        scripted.opened_with = {"environment": environment, **options}
        try:
            yield scripted
        finally:
            if scripted.closing_error is not None:
                raise scripted.closing_error

    monkeypatch.setattr(moorage, "open_session", open_session, raising=False)
    return scripted


@pytest.fixture
def home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("MOORAGE_HOME", str(folder))
    return folder


@dataclass
class Input:
    data: bytes = b""
    buffer: io.BytesIO = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = io.BytesIO(self.data)

    def isatty(self) -> bool:
        return False


CommandLine = Callable[..., Ended]


@pytest.fixture
def command_line(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Run ``moorage`` with arguments and return how it ended."""
    monkeypatch.delenv("MOORAGE_DEBUG", raising=False)

    def run(*arguments: str, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", Input(stdin))
        capsysbinary.readouterr()
        code = run_command_line(arguments)
        written = capsysbinary.readouterr()
        return Ended(code, written.out, written.err)

    return run
