"""A workspace on disk with the catalogue of tools above it, for tests of the file tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ToolCall, ToolResult
from moorage.tools.catalogue import Catalogue, ToolContext, workspace_catalogue
from moorage.workspace.redact import Redactor
from moorage.workspace.root import WorkspaceRoot


class FileDesk:
    """A workspace folder, and calls of tools that work on files alone."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workspace"
        self.outside = folder / "outside"
        self.own = folder / "home" / "session"
        for made in (self.path, self.outside, self.own):
            made.mkdir(parents=True)
        self.root = WorkspaceRoot.open(
            self.path, readable=(self.own,), hidden_folders=(folder / "home",)
        )
        self.catalogue: Catalogue = workspace_catalogue(highest=PermissionMode.UNCONFINED)

    def context(self, mode: PermissionMode = PermissionMode.STANDARD) -> ToolContext:
        nothing: Any = None
        return ToolContext(
            root=self.root,
            mode=mode,
            actor="actor",
            session="session",
            plan=nothing,
            supervisor=nothing,
            redactor=Redactor(),
            variables={},
            state_dir=self.own,
            exports=nothing,
        )

    async def call(
        self, tool: str, *, mode: PermissionMode = PermissionMode.STANDARD, **arguments: Any
    ) -> ToolResult:
        call = ToolCall(name=tool, arguments=json.dumps(arguments))
        return await self.catalogue.dispatch(call, self.context(mode))

    @staticmethod
    def listing(folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def names(self) -> list[str]:
        """Return everything in the workspace, so that leftovers show."""
        return sorted(
            str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.name
        )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[FileDesk]:
    desk = FileDesk(tmp_path)
    yield desk
    desk.root.close()


@pytest.fixture
def make_small_disk(tmp_path: Path) -> Iterator[Any]:
    """Return a function that mounts a small or a read-only disk; the test needs "mounts"."""
    import subprocess  # noqa: PLC0415 - only the tests of full disks need it

    mounted: list[Path] = []

    def run(*command: str) -> None:
        with subprocess.Popen(command, stderr=subprocess.PIPE) as child:
            _, error = child.communicate(timeout=20)
        assert child.returncode == 0, error.decode()

    def mount(folder: Path, *, is_read_only: bool = False) -> None:
        if is_read_only:
            run("mount", "--bind", str(folder), str(folder))
            mounted.append(folder)
            run("mount", "-o", "remount,bind,ro", str(folder))
        else:
            run("mount", "-t", "tmpfs", "-o", "size=64k", "moorage-test", str(folder))
            mounted.append(folder)

    yield mount
    for folder in reversed(mounted):
        with subprocess.Popen(("umount", "--lazy", str(folder))) as child:
            child.wait(timeout=20)
