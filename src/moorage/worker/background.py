"""The wire's ``process/*`` methods: background processes of the bound session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moorage.connection.provider import Handler, RequestContext
from moorage.errors import InvalidArguments, Refused
from moorage.policy.decide import check_call
from moorage.policy.permission import Effect, PermissionMode
from moorage.process.managed.live import StartSpec, owner_of
from moorage.protocol.processes import (
    CleanupReply,
    CompletionDeliveredRequest,
    CompletionModeRequest,
    OutputSnapshot,
    ProcessRecord,
    ProcessRequest,
    ReadRequest,
    ResizeRequest,
    StartRequest,
    StopRequest,
    WriteRequest,
)
from moorage.tools.classify import classify
from moorage.worker.modes import mode_of

if TYPE_CHECKING:
    from moorage.process.managed.control import ProcessManager
    from moorage.worker.desk import Desk


class ProcessMethods:
    """The handlers by wire name."""

    def __init__(self, desk: Desk, highest: PermissionMode) -> None:
        """Serve the processes of this desk."""
        self._desk = desk
        self._highest = highest
        self.handlers: Mapping[str, Handler] = {
            "process/start": self._start,
            "process/list": self._list,
            "process/get": self._get,
            "process/read": self._read,
            "process/write": self._write,
            "process/resize": self._resize,
            "process/stop": self._stop,
            "process/input_available": self._input_available,
            "process/completion_pending": self._completion_pending,
            "process/completion_delivered": self._completion_delivered,
            "process/completion_mode": self._completion_mode,
            "process/cleanup": self._cleanup,
        }

    @property
    def _manager(self) -> ProcessManager:
        return self._desk.processes

    @property
    def _session(self) -> str:
        return self._desk.session

    async def _start(self, request: StartRequest, _: RequestContext) -> ProcessRecord:
        desk = self._desk
        mode = mode_of(request)
        check_call("process/start", Effect.EXECUTE, mode=mode, highest=self._highest)
        if not request.command.strip():
            raise InvalidArguments("The command is blank; nothing ran.", hint="Give a command.")
        if mode is PermissionMode.READ_ONLY:
            _check_reading(request.command)
        await desk.commands_prepared()
        folder, cwd = _open_folder(desk, request.cwd, mode)
        try:
            return await desk.processes.start(
                StartSpec(
                    command=request.command,
                    cwd=cwd,
                    cwd_fd=folder,
                    plan=desk.place.plan(mode),
                    variables=request.environment,
                    owner=owner_of(request.actor, desk.session),
                    lifecycle=request.lifecycle,
                    completion_mode=request.completion_mode,
                    tty=request.tty,
                    operation_id=request.operation_id,
                )
            )
        finally:
            os.close(folder)

    async def _list(self, _: None, __: RequestContext) -> tuple[ProcessRecord, ...]:
        return self._manager.list(self._session)

    async def _get(self, request: ProcessRequest, _: RequestContext) -> ProcessRecord:
        return self._manager.get(self._session, request.id)

    async def _read(self, request: ReadRequest, _: RequestContext) -> OutputSnapshot:
        return await self._manager.read(self._session, request.id, request.options)

    async def _write(self, request: WriteRequest, _: RequestContext) -> ProcessRecord:
        data = request.input.encode("utf-8", "replace")
        record, _written = await self._manager.write(self._session, request.id, data)
        return record

    async def _resize(self, request: ResizeRequest, _: RequestContext) -> ProcessRecord:
        return await self._manager.resize(self._session, request.id, request.cols, request.rows)

    async def _stop(self, request: StopRequest, _: RequestContext) -> ProcessRecord:
        return await self._manager.stop(self._session, request.id, is_forced=request.force)

    async def _input_available(self, request: ProcessRequest, _: RequestContext) -> bool:
        return self._manager.input_available(self._session, request.id)

    async def _completion_pending(self, request: ProcessRequest, _: RequestContext) -> bool:
        return self._manager.completion_pending(self._session, request.id)

    async def _completion_delivered(
        self, request: CompletionDeliveredRequest, _: RequestContext
    ) -> ProcessRecord:
        return self._manager.completion_delivered(self._session, request.id, request.consumer)

    async def _completion_mode(
        self, request: CompletionModeRequest, _: RequestContext
    ) -> ProcessRecord:
        return self._manager.update(self._session, request.id, request.mode)

    async def _cleanup(self, _: None, __: RequestContext) -> CleanupReply:
        return CleanupReply(cleaned=await self._manager.cleanup(self._session) or None)


def _check_reading(command: str) -> None:
    classification = classify(command)
    if not classification.read_only:
        raise Refused(
            "the permission mode is read_only, and only commands that are known to read may "
            f"run: {classification.reason}. Nothing ran.",
            reason="boundary_denied",
            hint="The user can change the session's mode.",
        )


def _open_folder(desk: Desk, path: str, mode: PermissionMode) -> tuple[int, str]:
    """Open the folder to start in, which must be permitted.

    Raises:
        InvalidArguments: there is none.
        Refused: it lies outside.
    """
    try:
        folder, location = desk.root.open_directory(path or ".", mode)
    except OSError as error:
        raise InvalidArguments(
            f"cwd {path!r} cannot be used: {error.strerror or error}; nothing ran.",
            hint="Name an existing folder of the workspace, or leave cwd out.",
        ) from error
    return folder, location.absolute
