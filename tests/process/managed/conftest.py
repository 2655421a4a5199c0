from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from moorage.confine.nursery import tree
from moorage.process.managed.control import ProcessManager
from moorage.process.managed.limits import ManagedLimits
from moorage.process.managed.live import Owner, StartSpec
from moorage.process.supervisor import Supervisor
from moorage.protocol.processes import (
    OutputSnapshot,
    ProcessEvent,
    ProcessRecord,
    ReadOptions,
)
from moorage.workspace.redact import Redactor

SECOND = 1_000_000_000
SESSION = "session-1"
SECRET = "correct-horse-battery"  # noqa: S105 - it is none


class Bench:
    """One manager, the events that it told, and what tests do with it over and over."""

    session = SESSION
    secret = SECRET

    def __init__(self, supervisor: Supervisor, folder: Path, spec: Callable[..., StartSpec]):
        self.supervisor = supervisor
        self.folder = folder
        self.spec = spec
        self.events: list[ProcessEvent] = []
        self.redactor = Redactor([SECRET])
        self.manager = self.make()

    def make(self, **limits: object) -> ProcessManager:
        chosen: dict[str, object] = {"stop_grace_seconds": 0.2, "drain_seconds": 0.1, **limits}
        return ProcessManager(
            self.supervisor,
            self.folder,
            redactor=lambda: self.redactor,
            on_event=self.events.append,
            limits=ManagedLimits(**chosen),  # type: ignore[arg-type]
        )

    async def remake(self, **limits: object) -> ProcessManager:
        """Close the manager and open another one on the same folder, as a later worker does."""
        await self.manager.aclose()
        self.manager = self.make(**limits)
        await self.manager.open()
        return self.manager

    async def start(self, command: str, **changes: object) -> ProcessRecord:
        with anyio.fail_after(5):
            return await self.manager.start(self.spec(command, **changes))

    async def read(self, process_id: str, offset: int | None = None, **more: int) -> OutputSnapshot:
        wait, dwell = more.get("wait", 0), more.get("dwell", 0)
        options = ReadOptions(
            offset_bytes=offset,
            max_bytes=more.get("max_bytes", 0),
            wait_ns=int(wait * SECOND),
            min_dwell_ns=int(dwell * SECOND),
        )
        with anyio.fail_after(10):
            return await self.manager.read(SESSION, process_id, options)

    async def end_of(self, process_id: str) -> ProcessRecord:
        """Return the record once the process has ended."""
        while True:
            total = (await self.read(process_id)).total_bytes
            record = (await self.read(process_id, total, wait=10)).process
            if record.is_terminal:
                return record

    async def until_printed(self, process_id: str, text: str) -> str:
        """Return the output once a text is in it."""
        with anyio.fail_after(5):
            output, at = "", 0
            while text not in output:
                window = await self.read(process_id, at, wait=5)
                output, at = output + window.output, window.end_offset
                assert not window.process.is_terminal or text in output, output
        return output

    async def stop(self, process_id: str, *, is_forced: bool = False) -> ProcessRecord:
        with anyio.fail_after(10):
            return await self.manager.stop(SESSION, process_id, is_forced=is_forced)

    async def until_total(self, process_id: str, total: int) -> None:
        """Wait until so many bytes were logged."""
        with anyio.fail_after(5):
            while (await self.read(process_id)).total_bytes < total:
                await anyio.lowlevel.checkpoint()

    async def until_told(self, kind: str) -> None:
        """Wait until an event was told."""
        with anyio.fail_after(5):
            while not self.told(kind):
                await anyio.lowlevel.checkpoint()

    def told(self, kind: str) -> list[ProcessEvent]:
        return [event for event in self.events if event.type == kind]

    def is_alive(self, pid: int) -> bool:
        found = tree.look_at(pid)
        return found is not None and found.is_alive


@pytest.fixture
def spec(place) -> Callable[..., StartSpec]:
    def make(command: str, **changes: object) -> StartSpec:
        fields: dict[str, object] = {
            "cwd": str(place.root),
            "plan": place.plan(),
            "owner": Owner("main_agent", "main", SESSION),
            "tty": False,
            **changes,
        }
        return StartSpec(command=command, **fields)  # type: ignore[arg-type]

    return make


@pytest.fixture
async def bench(supervisor: Supervisor, tmp_path: Path, spec) -> AsyncIterator[Bench]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    bench = Bench(supervisor, folder, spec)
    await bench.manager.open()
    yield bench
    await bench.manager.aclose()
