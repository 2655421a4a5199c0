"""A workspace whose commands really run, confined as in a worker."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from moorage.confine.nursery import Nursery, start_nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.foreground import ForegroundLimits
from moorage.process.managed.control import ProcessManager
from moorage.process.managed.limits import ManagedLimits
from moorage.process.spec import SupervisorLimits
from moorage.process.supervisor import Supervisor
from moorage.process.variables import prepared
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.tool_calls import ToolCall, ToolResult
from moorage.tools.bash import Bash, BashLimits
from moorage.tools.catalogue import Catalogue, ToolContext
from moorage.tools.denials import find_denials
from moorage.workspace.redact import Redactor
from moorage.workspace.root import WorkspaceRoot

LIMITS = BashLimits(foreground=ForegroundLimits(end_grace_seconds=0.3, quiet_seconds=0.05))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


class CommandDesk:
    """A workspace and calls of ``bash`` in it."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        top = Path(os.path.realpath(folder))
        self.path = top / "workspace"
        self.outside = top / "outside"
        self.home = top / "home"
        self.own = self.home / "session"
        self.temporary = self.home / "tmp"
        for made in (self.path, self.outside, self.own, self.temporary):
            made.mkdir(parents=True)
        self.variables: dict[str, str] = {**os.environ, "HOME": str(self.outside)}
        self.root = WorkspaceRoot.open(self.path, readable=(self.own,), hidden_folders=(self.home,))
        self.supervisor = Supervisor(
            nursery,
            base_variables=self._base,
            limits=SupervisorLimits(end_grace_seconds=0.3),
        )
        self.redactor = Redactor()
        self.events: list[ProcessEvent] = []
        self.processes = ProcessManager(
            self.supervisor,
            self.own,
            redactor=lambda: self.redactor,
            on_event=self.events.append,
            limits=ManagedLimits(stop_grace_seconds=0.3, dwell_seconds=0.05),
            find_denials=find_denials,
        )
        self.input_fd: int | None = None
        self.use(LIMITS)

    def use(self, limits: BashLimits) -> None:
        self.catalogue = Catalogue.of([Bash(limits)], highest=PermissionMode.UNCONFINED)

    def program(self, name: str, script: str) -> None:
        """Put a program on the path of the commands."""
        folder = self.outside / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        self.variables["PATH"] = f"{folder}:{os.environ['PATH']}"

    def _base(self, plan: Plan) -> dict[str, str]:
        folder = str(self.temporary)
        return prepared(self.variables, mode=plan.mode, temporary=folder, cache=folder)

    def plan(self, mode: PermissionMode) -> Plan:
        return Plan(
            mode=mode,
            writable_roots=(str(self.path),),
            hidden_paths=(str(self.home),),
            private_paths=(str(self.temporary),),
            readable_paths=(str(self.own),),
        )

    def context(self, mode: PermissionMode) -> ToolContext:
        exports: Any = None
        return ToolContext(
            root=self.root,
            mode=mode,
            actor="actor",
            session="session",
            plan=self.plan(mode),
            supervisor=self.supervisor,
            redactor=self.redactor,
            variables={},
            state_dir=self.own,
            exports=exports,
            input_fd=self.input_fd,
            find_processes=lambda: self.processes,
        )

    async def call(
        self, *, mode: PermissionMode = PermissionMode.STANDARD, **arguments: Any
    ) -> ToolResult:
        call = ToolCall(name="bash", arguments=json.dumps(arguments))
        with anyio.fail_after(20):
            return await self.catalogue.dispatch(call, self.context(mode))

    async def bash(self, command: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Return the view and the envelope of a command."""
        result = await self.call(command=command, **arguments)
        assert result.structured_content is not None
        return result.text, result.structured_content

    def logs(self) -> list[Path]:
        return sorted((self.own / "tool-results").rglob("*.log"))

    async def until_gone(self, pid: int) -> None:
        """Wait until a process has ended."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            with anyio.fail_after(5):
                await anyio.wait_readable(handle)
        finally:
            os.close(handle)

    @staticmethod
    def is_alive(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        return state not in "ZX"


@pytest.fixture
async def desk(tmp_path: Path, nursery: Nursery) -> AsyncIterator[CommandDesk]:
    desk = CommandDesk(tmp_path, nursery)
    async with desk.supervisor:
        await desk.processes.open()
        yield desk
        await desk.processes.aclose()
    desk.root.close()
