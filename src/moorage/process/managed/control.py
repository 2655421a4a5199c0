"""Start, find, read, write, stop and clean up background processes: what every front of it uses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from moorage.errors import InvalidArguments
from moorage.process.kept.records import stamp
from moorage.process.managed import input as inputs
from moorage.process.managed import survivors
from moorage.process.managed.following import FindDenials, Keeper, no_denials
from moorage.process.managed.ledger import Ledger, OnEvent
from moorage.process.managed.limits import ManagedLimits
from moorage.process.managed.live import Live, StartSpec
from moorage.process.managed.reservation import Reservation
from moorage.process.managed.starting import Starter
from moorage.process.managed.stopping import Stopper
from moorage.protocol.processes import (
    DEFAULT_READ_BYTES,
    CompletionMode,
    OutputSnapshot,
    ProcessRecord,
    ReadOptions,
)

if TYPE_CHECKING:
    from pathlib import Path

    from moorage.process.child import Child
    from moorage.process.kept.window import PlaceMasker
    from moorage.process.supervisor import Supervisor

logger = logging.getLogger(__name__)

_NANOSECONDS = 1_000_000_000


class ProcessManager:
    """The background processes of one session and their records; what it returns is masked."""

    def __init__(
        self,
        supervisor: Supervisor,
        folder: Path,
        *,
        redactor: Callable[[], PlaceMasker],
        on_event: OnEvent,
        limits: ManagedLimits | None = None,
        find_denials: FindDenials = no_denials,
    ) -> None:
        """Keep records and logs below ``folder``; nothing is opened before ``open``."""
        self.limits = limits or ManagedLimits()
        self._supervisor = supervisor
        self._ledger = Ledger(folder, self.limits, redactor, on_event, supervisor.start_soon)
        self._keeper = Keeper(self._ledger, supervisor, find_denials)
        self._starter = Starter(self._ledger, self._keeper, supervisor)
        self._stopper = Stopper(self._ledger, self._keeper)
        self._watch = survivors.Watch()
        self._is_closed = False

    async def open(self) -> None:
        """Read the records of earlier workers and settle what has become of their processes.

        Raises:
            ConfigError: the folders cannot be made or used.
        """
        for live in self._take_up():
            await self._keeper.retire_unseen(live)

    def open_now(self) -> None:
        """Do what ``open`` does, where nobody can wait: what has ended is settled soon after.

        Raises:
            ConfigError: the folders cannot be made or used.
        """
        for live in self._take_up():
            self._supervisor.start_soon(self._keeper.retire_unseen, live)

    def _take_up(self) -> list[Live]:
        """Read the records, watch the survivors, and return what must have ended."""
        self._ledger.open()
        ended = []
        for live in self._ledger:
            if live.record.is_terminal:
                continue
            live.is_stop_requested = live.record.terminal_cause == "requested_stop"
            live.is_survivor = True
            if survivors.find(live.record) is None:
                ended.append(live)
            else:
                gone = self._keeper.survivor_gone
                self._supervisor.start_soon(self._watch.until_gone, live, gone)
        return ended

    # Starting.

    async def start(self, spec: StartSpec) -> ProcessRecord:
        """Start a process; its record is written before this returns.

        Raises:
            InvalidArguments: the command is blank or too long, or nobody owns it; nothing ran.
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the program, its folder, its log or its record cannot be had.
            EnvironmentDied: the launcher was lost before it could start it.
        """
        return self._ledger.shown(await self._starter.start(spec))

    def reserve(self, spec: StartSpec) -> Reservation:
        """Set an id and a log aside for a foreground command that may have to go on here."""
        return Reservation(self._ledger, spec, self.limits)

    async def adopt(self, reservation: Reservation, child: Child) -> ProcessRecord:
        """Take over a running child, its two pipes, and what it has printed so far.

        Raises:
            ProvisionError: the record or the log cannot be written; the child is still the
                caller's, who may go on waiting for it.
        """
        return self._ledger.shown(await self._starter.adopt(reservation, child))

    # Looking.

    def list(self, session: str) -> tuple[ProcessRecord, ...]:
        """Return the records of a session, the oldest first."""
        return tuple(self._ledger.shown(live) for live in self._ledger.of(session))

    def get(self, session: str, process_id: str) -> ProcessRecord:
        """Return one record.

        Raises:
            UnknownProcess: no process of this session has the id.
        """
        return self._ledger.shown(self._ledger.find(session, process_id))

    async def read(self, session: str, process_id: str, options: ReadOptions) -> OutputSnapshot:
        """Return a window of the output, after a wait where one is asked for.

        Raises:
            UnknownProcess: no process of this session has the id.
            InvalidArguments: the offset is below zero.
        """
        live = self._ledger.find(session, process_id)
        if options.offset_bytes is not None and options.offset_bytes < 0:
            raise InvalidArguments(
                f"offset {options.offset_bytes} is below zero; nothing was read.",
                hint="Leave the offset out for the newest output, or give a former end.",
            )
        most = options.max_bytes if options.max_bytes > 0 else DEFAULT_READ_BYTES
        most = min(most, self.limits.longest_read_bytes)
        begun = time.monotonic_ns()
        if live.is_survivor and not live.ended.is_set():
            live.log.look()
        timed_out = False
        if options.wait_ns > 0 and not live.ended.is_set():
            timed_out = await self._await_output(live, options, most)
        window = live.window(self._ledger.masker(), options.offset_bytes, most)
        base, total = live.log.base, live.log.total
        is_cut = window.start > base if options.offset_bytes is None else window.end < total
        return OutputSnapshot(
            process=self._ledger.shown(live),
            output=window.text,
            truncated=is_cut,
            start_offset=window.start,
            end_offset=window.end,
            total_bytes=total,
            timed_out=timed_out,
            duration_ns=time.monotonic_ns() - begun,
        )

    async def _await_output(self, live: Live, options: ReadOptions, most: int) -> bool:
        """Wait for new output, gathered for a while, or for the end; return whether none came."""
        now = anyio.current_time()
        deadline = now + min(options.wait_ns / _NANOSECONDS, self.limits.longest_wait_seconds)
        dwell_until = min(now + max(options.min_dwell_ns, 0) / _NANOSECONDS, deadline)
        offset = options.offset_bytes
        start = live.log.total if offset is None else min(offset, live.log.total)
        needed = start + 1
        while await live.grow(needed, deadline):
            await live.grow(start + most, dwell_until)
            window = live.window(self._ledger.masker(), start, most)
            if window.end > window.start:
                return False
            needed = live.log.total + 1  # So far it is half a character.
        return not live.ended.is_set()

    # Acting.

    async def write(self, session: str, process_id: str, data: bytes) -> tuple[ProcessRecord, int]:
        """Write bytes as they are; return the record and how many were taken.

        Raises:
            UnknownProcess: no process of this session has the id.
            InvalidArguments: it has ended, takes no input, or was stopped meanwhile.
        """
        live = self._ledger.find(session, process_id)
        written = await inputs.write(live, data, self.limits)
        return self._ledger.shown(live), written

    def input_available(self, session: str, process_id: str) -> bool:
        """Return whether ``write`` can reach the process."""
        return self._ledger.find(session, process_id).stdin_fd >= 0

    async def resize(self, session: str, process_id: str, columns: int, rows: int) -> ProcessRecord:
        """Give the terminal of a process another size.

        Raises:
            UnknownProcess: no process of this session has the id.
            InvalidArguments: it has ended or has no terminal, or the size is none.
        """
        live = self._ledger.find(session, process_id)
        inputs.resize(live, columns, rows)
        return self._ledger.shown(live)

    async def stop(
        self, session: str, process_id: str, *, is_forced: bool = False
    ) -> ProcessRecord:
        """End a process and all that descends from it; one that has ended stays as it is.

        ``is_forced`` leaves no grace, also where a soft stop is under way.

        Raises:
            UnknownProcess: no process of this session has the id.
            ShutdownIncomplete: something of it survived SIGKILL; it counts as running.
        """
        live = self._ledger.find(session, process_id)
        await self._stopper.stop(live, is_forced=is_forced)
        return self._ledger.shown(live)

    def update(
        self, session: str, process_id: str, completion_mode: CompletionMode
    ) -> ProcessRecord:
        """Choose whether the end of a running process is announced.

        Raises:
            UnknownProcess: no process of this session has the id.
            InvalidArguments: it has ended, or there is no such mode.
        """
        live = self._ledger.find(session, process_id)
        if completion_mode not in {"resume", "detached"}:
            raise InvalidArguments(
                f"{completion_mode!r} is no completion mode; it is resume or detached."
            )
        if live.record.is_terminal:
            raise InvalidArguments(f"{process_id} has ended; its completion mode stays.")
        self._ledger.change(live, completion_mode=completion_mode)
        self._ledger.tell("updated", live)
        return self._ledger.shown(live)

    # The end of a process, and who has heard of it.

    def completion_pending(self, session: str, process_id: str) -> bool:
        """Return whether a process ended by itself and nobody has taken note of it."""
        return self._ledger.find(session, process_id).record.is_completion_pending

    def completion_delivered(self, session: str, process_id: str, consumer: str) -> ProcessRecord:
        """Note who has heard of the end of a process; the first one stays.

        Raises:
            UnknownProcess: no process of this session has the id.
            InvalidArguments: it runs, or was stopped on request.
        """
        live = self._ledger.find(session, process_id)
        if not live.record.is_terminal or live.record.terminal_cause != "natural_exit":
            raise InvalidArguments(f"{process_id} has not ended by itself; there is no completion.")
        if not live.record.completion_consumed_by:
            self._ledger.change(
                live,
                completion_delivered_at=stamp(),
                completion_consumed_by=consumer.strip() or "unnamed",
            )
        return self._ledger.shown(live)

    # Ends.

    async def cleanup(self, session: str) -> tuple[ProcessRecord, ...]:
        """End every process of a session but the managed ones; return what was ended.

        Raises:
            ShutdownIncomplete: something survived SIGKILL; the others were ended.
        """
        lives = [
            live
            for live in self._ledger.of(session)
            if live.child is not None and live.record.lifecycle == "session"
        ]
        await self._stopper.stop_all(lives)
        for live in lives:
            self._ledger.tell("cleaned_up", live, live.record.terminal_cause)
        return tuple(self._ledger.shown(live) for live in lives)

    async def aclose(self) -> None:
        """End every process that this worker holds, managed ones too.

        Raises:
            ShutdownIncomplete: something survived SIGKILL; the others were ended.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._watch.close()
        with anyio.CancelScope(shield=True):
            try:
                await self._stopper.stop_all([live for live in self._ledger if live.child])
            finally:
                await self._ledger.aclose()
