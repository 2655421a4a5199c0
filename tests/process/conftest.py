from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from tests.process.foreground_desk import Desk

from moorage.confine.nursery import Nursery, start_nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.child import Child, PipeReader
from moorage.process.spec import ExitStatus, ProgramSpec, SupervisorLimits
from moorage.process.supervisor import Supervisor

BASE = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "BASE": "from the base"}


class Place(NamedTuple):
    """A workspace, a folder that no command may read, and a private one inside it."""

    root: Path
    hidden: Path
    private: Path
    outside: Path

    def plan(self, mode: PermissionMode = PermissionMode.STANDARD) -> Plan:
        return Plan(
            mode=mode,
            writable_roots=(str(self.root),),
            hidden_paths=(str(self.hidden),),
            private_paths=(str(self.private),),
        )


class Finished(NamedTuple):
    status: ExitStatus
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def own_nursery() -> Iterator[Nursery]:
    """A nursery that the test may kill."""
    nursery = start_nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    top = tmp_path.resolve()
    place = Place(top / "work", top / "home", top / "home" / "tmp", top / "outside")
    for folder in place:
        folder.mkdir()
    (place.hidden / "secret").write_text("the secret\n")
    return place


@pytest.fixture
def limits() -> SupervisorLimits:
    return SupervisorLimits(end_grace_seconds=0.2, kill_seconds=2.0, answer_seconds=4.0)


@pytest.fixture
async def supervisor(nursery: Nursery, limits: SupervisorLimits) -> AsyncIterator[Supervisor]:
    async with Supervisor(nursery, base_variables=lambda _: BASE, limits=limits) as supervisor:
        yield supervisor


class Hand:
    """What tests do with children, over and over."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor

    async def run(self, spec: ProgramSpec) -> Finished:
        with anyio.fail_after(5):
            async with self.supervisor.open(spec) as child:
                return await self.finish(child)

    async def finish(self, child: Child) -> Finished:
        status = await child.wait()
        return Finished(
            status, await self.read_all(child.stdout), await self.read_all(child.stderr)
        )

    async def read_all(self, reader: PipeReader) -> str:
        chunks = []
        while chunk := await reader.read():
            chunks.append(chunk)
        return b"".join(chunks).decode()

    async def read_line(self, reader: PipeReader) -> str:
        text = b""
        while not text.endswith(b"\n"):
            chunk = await reader.read(1)
            assert chunk, f"the output ended after {text!r}"
            text += chunk
        return text.decode().rstrip("\n")

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait, within a bound, for something that gives no event, such as a file of a child."""
        with anyio.fail_after(20):
            while not is_true():
                await anyio.lowlevel.checkpoint()

    async def await_end(self, pid: int) -> None:
        """Wait until no process has this pid any more, or it only awaits collection."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            with anyio.fail_after(5):
                await anyio.wait_readable(handle)
        finally:
            os.close(handle)


@pytest.fixture
def hand(supervisor: Supervisor) -> Hand:
    return Hand(supervisor)


@pytest.fixture
def shell(place: Place) -> Callable[..., ProgramSpec]:
    """Return specs of shell commands in the workspace."""

    def spec(command: str, **changes: object) -> ProgramSpec:
        fields: dict[str, object] = {"plan": place.plan(), "cwd": str(place.root), **changes}
        return ProgramSpec(argv=("bash", "-c", command), **fields)  # type: ignore[arg-type]

    return spec


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path / "logs")
    yield desk
    desk.child.close()
    desk.child.stdout.close()
    desk.child.stderr.close()
