"""A fake child on real pipes, and runs of it in the foreground."""

from __future__ import annotations

import fcntl
import os
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from moorage.confine.plan import Plan
from moorage.errors import EnvironmentDied, ShutdownIncomplete
from moorage.policy.permission import PermissionMode
from moorage.process.capture import CaptureLimits
from moorage.process.child import PipeReader
from moorage.process.foreground import ForegroundLimits, ForegroundResult, run_foreground
from moorage.process.managed.hand_over import HandOver, Wait
from moorage.process.spec import ExitStatus, ProgramSpec
from moorage.workspace.redact import Redactor

LONG, SHORT = 30.0, 0.02
LIMITS = ForegroundLimits(
    settle_seconds=SHORT,
    end_grace_seconds=0.5,
    drain_seconds=LONG,
    quiet_seconds=SHORT,
    capture=CaptureLimits(whole_bytes=1024, unmasked_bytes=1024, head_bytes=300, tail_bytes=600),
)
PLAN = Plan(mode=PermissionMode.STANDARD)


class FakeChild:
    """A child whose output and end the test decides; its pipes are real."""

    pid = 4711

    def __init__(self) -> None:
        out, self.out = os.pipe()
        err, self.err = os.pipe()
        self.stdout, self.stderr = PipeReader(out), PipeReader(err)
        self.ended_with: list[float] = []
        self.left = 0
        self.dies_hard = False
        self.on_end: Callable[[], Awaitable[None]] | None = None
        self._status: ExitStatus | None = None
        self._is_lost = False
        self._exited = anyio.Event()

    def exit(self, code: int | None = 0, *, signal: int | None = None, closes: bool = True) -> None:
        self._status = ExitStatus(exit_code=code, signal=signal)
        if closes:
            self.close()
        self._exited.set()

    async def started(self) -> None:
        """It runs from the first."""

    def lose(self) -> None:
        self._is_lost = True
        self.close()
        self._exited.set()

    def close(self) -> None:
        for name in ("out", "err"):
            fd = getattr(self, name)
            if fd >= 0:
                os.close(fd)
                setattr(self, name, -1)

    async def wait(self) -> ExitStatus:
        await self._exited.wait()
        if self._is_lost:
            raise EnvironmentDied("the launcher was lost.")
        assert self._status is not None
        return self._status

    async def end(self, grace_seconds: float) -> None:
        self.ended_with.append(grace_seconds)
        if self.on_end is not None:
            await self.on_end()
        self.close()
        if self.dies_hard:
            raise ShutdownIncomplete("1 process survived SIGKILL.")

    async def count_left(self) -> int:
        return self.left


class FakeSupervisor:
    def __init__(self, child: FakeChild) -> None:
        self.child = child
        self.refusal: Exception | None = None

    @asynccontextmanager
    async def open(self, spec: ProgramSpec) -> AsyncIterator[FakeChild]:
        if self.refusal is not None:
            raise self.refusal
        yield self.child


class Desk:
    """A child, and a run of it in the foreground."""

    def __init__(self, logs: Path) -> None:
        self.child = FakeChild()
        self.supervisor = FakeSupervisor(self.child)
        self.logs = logs
        self.hand_over: HandOver | None = None

    async def run(
        self, *, timeout_seconds: float = LONG, limits: ForegroundLimits = LIMITS
    ) -> ForegroundResult:
        supervisor: Any = self.supervisor
        with anyio.fail_after(5):
            return await run_foreground(
                supervisor,
                ProgramSpec(argv=("bash", "-c", "say password=hunter2"), plan=PLAN, cwd="/work"),
                wait=Wait(timeout_seconds=timeout_seconds, hand_over=self.hand_over),
                limits=limits,
                redactor=Redactor(),
                log_dir=str(self.logs),
            )

    async def until_read(self) -> None:
        """Wait until everything written to stdout was read."""
        while os.fstat(self.child.stdout.fd).st_size or _waiting(self.child.stdout.fd):
            await anyio.lowlevel.checkpoint()


def _waiting(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
