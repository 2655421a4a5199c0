"""Start managed processes, in terminals or pipes, and take over running foreground commands."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import anyio
import msgspec

from moorage.errors import InvalidArguments, ProvisionError
from moorage.policy.permission import PermissionMode
from moorage.process.child import NoTerminal
from moorage.process.kept.log import OutputLog
from moorage.process.kept.records import stamp
from moorage.process.managed.identity import identity_of
from moorage.process.managed.live import Live, StartSpec
from moorage.process.spec import ProgramSpec
from moorage.protocol.processes import UNKNOWN_EXIT_CODE, ProcessRecord, SandboxMode

if TYPE_CHECKING:
    from moorage.process.child import Child
    from moorage.process.managed.following import Keeper
    from moorage.process.managed.ledger import Ledger
    from moorage.process.managed.reservation import Reservation
    from moorage.process.supervisor import Supervisor

logger = logging.getLogger(__name__)

_SANDBOX_MODES: dict[PermissionMode, SandboxMode] = {
    PermissionMode.STANDARD: "workspace-write",
    PermissionMode.READ_ONLY: "read-only",
    PermissionMode.UNCONFINED: "",
}


class Starter:
    """Starts processes for one ledger."""

    def __init__(self, ledger: Ledger, keeper: Keeper, supervisor: Supervisor) -> None:
        """Start nothing yet."""
        self._ledger = ledger
        self._limits = ledger.limits
        self._keeper = keeper
        self._supervisor = supervisor

    async def start(self, spec: StartSpec) -> Live:
        """Start a process; its record is on disk before this returns.

        Raises:
            InvalidArguments: the command is blank or too long, or nobody owns it; nothing ran.
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the program, its folder, its log or its record cannot be had.
            EnvironmentDied: the launcher was lost before it could start it.
        """
        _check(spec)
        process_id = self._ledger.store.new_id()
        log = OutputLog(self._ledger.folders.logs, process_id)
        live = self._new(spec, log, process_id)
        try:
            live.log.create()
            self._ledger.add(live)
        except OSError as error:
            live.log.remove()
            raise ProvisionError(
                f"The record of a background process cannot be written: {error.strerror}. "
                "Nothing ran.",
                hint="Make room on the disk that holds the worker's state.",
            ) from error
        child: Child | None = None
        try:
            child = await self._launch(live, spec)
            await child.started()
            self._note_running(live, child)
            if spec.lifecycle == "managed":
                await self._keeper.leave_at_crash(live, child)
        except BaseException:
            with anyio.CancelScope(shield=True):
                if child is not None:
                    await self._supervisor.let_go(child)
                self._keeper.close_input(live)
                self._ledger.drop(live)
            raise
        return self._begin(live, child)

    def _new(self, spec: StartSpec, log: OutputLog, process_id: str) -> Live:
        now = stamp()
        record = ProcessRecord(
            id=process_id,
            operation_id=spec.operation_id,
            owner_kind=spec.owner.kind,
            owner_id=spec.owner.actor,
            root_thread_id=spec.owner.session,
            host_generation_id=self._ledger.generation,
            lifecycle=spec.lifecycle,
            completion_mode=spec.completion_mode,
            status="starting",
            pid=0,
            pgid=0,
            log_path=self._ledger.folders.log_path(process_id),
            log_base_offset=log.base,
            command=spec.command,
            cwd=spec.cwd,
            started_at=now,
            updated_at=now,
            exit_code=UNKNOWN_EXIT_CODE,
            sandbox_mode=_SANDBOX_MODES[spec.plan.mode],
        )
        live = Live(record, log, self._limits)
        live.plan = spec.plan
        return live

    async def _launch(self, live: Live, spec: StartSpec) -> Child:
        program = ProgramSpec(
            argv=("bash", "-c", spec.command),
            plan=spec.plan,
            cwd=spec.cwd,
            cwd_fd=spec.cwd_fd,
            variables=spec.variables,
            label=live.record.id,
        )
        if spec.tty and (child := await self._in_terminal(live, program, spec)) is not None:
            return child
        stdin, live.stdin_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(live.stdin_fd, False)
        try:
            program = msgspec.structs.replace(program, stdin_fd=stdin)
            return await self._supervisor.start(program, is_merged=True)
        finally:
            os.close(stdin)

    async def _in_terminal(self, live: Live, program: ProgramSpec, spec: StartSpec) -> Child | None:
        """Start a program in a terminal; ``None`` where there is none to be had."""
        size = spec.size or (self._limits.rows, self._limits.columns)
        try:
            child = await self._supervisor.open_terminal(program, size)
        except NoTerminal as error:
            logger.warning("%s runs without a terminal: %s", live.record.id, error)
            return None
        live.stdin_fd = os.dup(child.stdout.fd)
        live.record = msgspec.structs.replace(live.record, tty=True)
        return child

    def _note_running(self, live: Live, child: Child) -> None:
        """Note which process it is: before it may outlive this worker, else nobody finds it."""
        self._ledger.change(
            live,
            status="running",
            pid=child.pid,
            pgid=child.pid,
            process_start_time=identity_of(child.pid),
        )

    def _begin(self, live: Live, child: Child) -> Live:
        """Tell that a process runs, follow it, and return it."""
        live.child = child
        self._ledger.tell("started", live)
        self._supervisor.start_soon(self._keeper.follow, live, child)
        return live

    async def adopt(self, reservation: Reservation, child: Child) -> Live:
        """Take over a running child, its two pipes, and what it has printed so far.

        Raises:
            ProvisionError: the record or the log cannot be written; the child is still the
                caller's, who may go on waiting for it.
        """
        spec = reservation.spec
        _check(spec)
        try:
            log = reservation.take_log()
            live = self._new(spec, log, reservation.process_id)
            try:
                self._ledger.add(live)
            except OSError:
                log.remove()
                raise
        except OSError as error:
            raise ProvisionError(
                f"The command cannot go on in the background: {error.strerror}.",
                hint="Make room on the disk that holds the worker's state.",
            ) from error
        self._supervisor.keep(child)
        self._note_running(live, child)
        if spec.lifecycle == "managed":
            await self._keeper.leave_at_crash(live, child)
        return self._begin(live, child)


def _check(spec: StartSpec) -> None:
    if not spec.command.strip():
        raise InvalidArguments("The command is blank; nothing ran.", hint="Give a command.")
    if not spec.owner.session or not spec.owner.actor:
        raise InvalidArguments(
            "A background process needs an actor and a session that own it; nothing ran."
        )
