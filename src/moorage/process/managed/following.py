"""Follow one process to its end: its output into its log, then its receipt into its record."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from moorage.errors import EnvironmentDied, ExecutionError, ShutdownIncomplete
from moorage.process.kept.records import stamp
from moorage.process.managed import survivors
from moorage.process.managed.pump import Pump
from moorage.protocol.processes import UNKNOWN_EXIT_CODE, EventType

if TYPE_CHECKING:
    from moorage.confine.plan import Plan
    from moorage.process.child import Child
    from moorage.process.managed.ledger import Ledger
    from moorage.process.managed.live import Live
    from moorage.process.spec import ExitStatus
    from moorage.process.supervisor import Supervisor

logger = logging.getLogger(__name__)

FindDenials = Callable[["Plan", str, int, bytes], Sequence[str]]
"""Takes plan, folder, exit code and the end of the log; returns what speaks of a denial."""

_SIGNAL_BASE = 128


class Keeper:
    """Follows the processes of one ledger."""

    def __init__(self, ledger: Ledger, supervisor: Supervisor, find_denials: FindDenials) -> None:
        """Follow nothing yet."""
        self._ledger = ledger
        self._supervisor = supervisor
        self._limits = ledger.limits
        self._find_denials = find_denials

    async def follow(self, live: Live, child: Child) -> None:
        """Follow a process until it has ended and its receipt is written."""
        pumps = [
            Pump(source, live.log, lambda: self._grown(live), self._limits)
            for source in {child.stdout, child.stderr}
        ]
        status: ExitStatus | None = None
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for pump in pumps:
                    tasks.start_soon(pump.run)
                with suppress(EnvironmentDied):
                    status = await child.wait()
                with anyio.move_on_after(self._limits.drain_seconds):
                    for pump in pumps:
                        await pump.ended.wait()
                tasks.cancel_scope.cancel()
            for pump in pumps:
                pump.take_waiting()
            await self._finish(live, child, status)

    def _grown(self, live: Live) -> None:
        if live.log.size > self._limits.live_log_bytes:
            self.cut(live)
        live.grown()

    async def leave_at_crash(self, live: Live, child: Child) -> None:
        """Have a managed process outlive a loss of this worker, its log included."""
        if live.log.fd < 0:
            return
        if live.record.tty:
            with suppress(OSError):  # No pipe to be had: then by way of this process.
                live.log.stage()
        with suppress(ExecutionError):  # It has ended; whoever follows it is told.
            await self._supervisor.leave_at_crash(child, live.log.descriptors)

    def cut(self, live: Live) -> None:
        """Cut a log to its kept tail; where there is no room for that it stays as it is."""
        try:
            live.log.cut(
                self._limits.kept_log_bytes,
                lambda base: self._ledger.change(live, log_base_offset=base),
            )
            if live.child is not None and live.record.lifecycle == "managed":
                self._supervisor.start_soon(self.leave_at_crash, live, live.child)
        except OSError as error:
            logger.warning("the log of %s cannot be cut: %s", live.record.id, error)

    async def _finish(self, live: Live, child: Child, status: ExitStatus | None) -> None:
        self.close_input(live)
        live.child = None
        try:
            await self._supervisor.let_go(child)
        except ShutdownIncomplete as error:
            logger.warning("%s: %s", live.record.id, error)
        code, problem = _account(status)
        await self._settle(live, code, problem)

    async def survivor_gone(self, live: Live) -> None:
        """Write the receipt of a survivor that has ended."""
        # Its launcher goes on for a moment, and nobody tells when it has written the last of it.
        await anyio.sleep(self._limits.drain_seconds)
        await self.retire_unseen(live)

    async def retire_unseen(self, live: Live) -> None:
        """Write the receipt of a process of which nobody saw the end, unless that is done.

        Where the ledger has been closed meanwhile, that is left to the next worker.
        """
        if self._ledger.is_open and not live.record.is_terminal:
            live.log.look()
            note = "" if live.is_stop_requested else survivors.explain(live.record)
            await self._settle(live, UNKNOWN_EXIT_CODE, note)

    async def _settle(self, live: Live, code: int, problem: str) -> None:
        """Cut the log, write the receipt, and tell everybody."""
        self.cut(live)
        digest = await live.log.digest()
        live.log.close()
        if live.record.is_terminal or not self._ledger.is_open:
            return
        failed = code != 0 and not live.is_stop_requested
        note = problem if failed else ""
        if live.log.lost_bytes:
            lost = f"{live.log.lost_bytes} bytes of output could not be logged: {live.log.problem}."
            note = f"{note} {lost}".strip()
        self._ledger.change(
            live,
            exit_code=code,
            status="failed" if failed else "stopped",
            terminal_cause="requested_stop" if live.is_stop_requested else "natural_exit",
            stopped_at=stamp(),
            last_error=note,
            total_bytes=live.log.total,
            log_sha256=digest,
            **self._denial(live, code),
        )
        live.end()
        kind: EventType = "failed" if failed else "stopped"
        self._ledger.tell(kind, live, live.record.terminal_cause)

    def _denial(self, live: Live, code: int) -> dict[str, Any]:
        if live.plan is None or not live.plan.mode.is_restricted or code == 0:
            return {}
        end = live.log.total
        tail = live.log.read(end - self._limits.read_bytes, end)
        signatures = tuple(self._find_denials(live.plan, live.record.cwd, code, tail))
        return {"sandbox_denied": bool(signatures), "sandbox_denial_signatures": signatures}

    @staticmethod
    def cancel_writers(live: Live) -> None:
        """Have whoever writes to a process stop waiting for it to read."""
        for scope in live.writers:
            scope.cancel()

    def close_input(self, live: Live) -> None:
        """Let nobody write to a process any more; whoever does is told."""
        self.cancel_writers(live)
        if live.stdin_fd >= 0:
            anyio.notify_closing(live.stdin_fd)
            os.close(live.stdin_fd)
            live.stdin_fd = -1


def _account(status: ExitStatus | None) -> tuple[int, str]:
    """Return the exit code, as a shell would give it, and what went wrong."""
    if status is None:
        return (
            UNKNOWN_EXIT_CODE,
            "The process that starts commands was ended, and with it this one.",
        )
    if status.signal is not None:
        return _SIGNAL_BASE + status.signal, f"It was ended by signal {status.signal}."
    code = status.exit_code or 0
    return code, f"It ended with exit code {code}." if code else ""


def no_denials(*_: object) -> Sequence[str]:
    """Find none."""
    return ()
