"""A workspace that is searched and listed by the real tools, with ripgrep and without it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.confine.nursery import Nursery, start_nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.spec import SupervisorLimits
from moorage.process.supervisor import Supervisor
from moorage.protocol.tool_calls import ToolCall, ToolResult
from moorage.tools.catalogue import Catalogue, Tool, ToolContext, workspace_catalogue
from moorage.worker.exports import Exports
from moorage.workspace.redact import Redactor
from moorage.workspace.root import WorkspaceRoot


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


class LookingDesk:
    """A workspace folder, one beside it, and calls of tools with a real supervisor."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        top = Path(os.path.realpath(folder))
        self.path = top / "workspace"
        self.outside = top / "outside"
        self.home = top / "home"
        self.own = self.home / "session"
        for made in (self.path, self.outside, self.own):
            made.mkdir(parents=True)
        self.root = WorkspaceRoot.open(self.path, readable=(self.own,), hidden_folders=(self.home,))
        self.supervisor = Supervisor(
            nursery,
            base_variables=lambda _: {**os.environ, "HOME": str(self.outside)},
            limits=SupervisorLimits(end_grace_seconds=0.3),
        )
        self.exports = Exports(self.own)
        self.variables: dict[str, str] = {}
        self.git_attribution = False
        self.catalogue = workspace_catalogue(highest=PermissionMode.UNCONFINED)

    def use(self, *tools: Tool) -> None:
        self.catalogue = Catalogue.of(tools, highest=PermissionMode.UNCONFINED)

    def write(self, name: str, content: str | bytes = "") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def link(self, name: str, target: str | Path) -> None:
        (self.path / name).symlink_to(target)

    def context(self, mode: PermissionMode) -> ToolContext:
        plan = Plan(
            mode=mode,
            writable_roots=(str(self.path),),
            hidden_paths=(str(self.home),),
            readable_paths=(str(self.own),),
        )
        return ToolContext(
            root=self.root,
            mode=mode,
            actor="actor",
            session="session",
            plan=plan,
            supervisor=self.supervisor,
            redactor=Redactor(),
            variables=self.variables,
            state_dir=self.own,
            exports=self.exports,
            git_attribution=self.git_attribution,
        )

    async def call(
        self, tool: str, *, mode: PermissionMode = PermissionMode.STANDARD, **arguments: Any
    ) -> ToolResult:
        call = ToolCall(name=tool, arguments=json.dumps(arguments))
        return await self.catalogue.dispatch(call, self.context(mode))

    async def data(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that succeeds, and return its data."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.text
        assert result.structured_content is not None
        return result.structured_content


@pytest.fixture
async def desk(tmp_path: Path, nursery: Nursery) -> AsyncIterator[LookingDesk]:
    desk = LookingDesk(tmp_path, nursery)
    async with desk.supervisor:
        yield desk
    desk.exports.close_all()
    desk.root.close()


@pytest.fixture(
    params=[
        pytest.param("ripgrep", marks=pytest.mark.needs("rg", "landlock")),
        pytest.param("own engine"),
    ]
)
def searched(desk: LookingDesk, request: pytest.FixtureRequest) -> LookingDesk:
    """The same workspace, searched with ripgrep and by the own engine."""
    if request.param == "own engine":
        desk.variables = {"PATH": "/no/programs/here"}
    return desk
