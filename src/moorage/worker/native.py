"""The native provider: workspace tools and commands of the machine that the worker runs on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from moorage.connection.provider import Handler, RequestContext
from moorage.errors import InvalidArguments
from moorage.policy.decide import check_call
from moorage.policy.permission import Effect, PermissionMode
from moorage.process.login import LoginCapture
from moorage.process.supervisor import Supervisor
from moorage.protocol.binding import BYTES, PROCESS_START, Binding
from moorage.protocol.exports import (
    ExportClosed,
    ExportCloseRequest,
    ExportReadReply,
    ExportReadRequest,
)
from moorage.protocol.files import (
    FileReadReply,
    FileReadRequest,
    FileWriteReply,
    FileWriteRequest,
    InputWriteReply,
    InputWriteRequest,
)
from moorage.protocol.methods import SERVED_METHODS
from moorage.protocol.tool_calls import ExecuteRequest, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS
from moorage.tools.catalogue import Catalogue, workspace_catalogue
from moorage.worker.desk import Desk
from moorage.worker.modes import mode_of
from moorage.worker.options import WorkerOptions
from moorage.worker.outlet import EventOutlet

_PROCESS_METHODS = tuple(name for name in SERVED_METHODS if name.startswith("process/"))


class NativeProvider:
    """Serves one bound session with tools that act on this machine."""

    capabilities = frozenset({BYTES, PROCESS_START})

    def __init__(
        self, options: WorkerOptions, supervisor: Supervisor, capture: LoginCapture
    ) -> None:
        """Keep what the user granted; nothing is opened before initialization."""
        self._options = options
        self._supervisor = supervisor
        self._capture = capture
        self._catalogue: Catalogue = workspace_catalogue(highest=options.highest)
        self._bound: Desk | None = None
        self._events = EventOutlet()
        self._process_methods: Mapping[str, Handler] = {}
        self.methods: Mapping[str, Handler] = {
            **{name: partial(self._process, name) for name in _PROCESS_METHODS},
            "execute": self._execute,
            "export/read": self._export_read,
            "export/close": self._export_close,
            "file/read": self._file_read,
            "file/write": self._file_write,
            "input/write": self._input_write,
        }

    async def initialize(self, binding: Binding, context: RequestContext) -> str:
        """Open the workspace and the worker's own folders, and return the resolved root."""
        desk = self._bound = Desk(binding, self._options, self._supervisor, self._events.put)
        await desk.take_up_processes()
        context.lifetime.start_soon(self._events.publish, context)
        context.lifetime.start_soon(desk.prepare_commands, self._capture)
        return desk.place.root

    async def close(self) -> None:
        """End everything that was started, then let go of the folders.

        Raises:
            ShutdownIncomplete: something did not end; the folders are left for inspection.
        """
        self._capture.release()
        try:
            if self._bound is not None:
                await self._bound.end_processes()
        finally:
            await self._supervisor.aclose()
        if self._bound is not None:
            self._bound.close()

    @property
    def _desk(self) -> Desk:
        if self._bound is None:
            raise InvalidArguments("the connection is not initialized.")
        return self._bound

    async def _execute(self, request: ExecuteRequest, _: RequestContext) -> ToolResult:
        desk, spec = self._desk, WORKSPACE_TOOLS.get(request.call.name)
        attribution = request.git_attribution_enabled
        if spec is not None and spec.effect is Effect.EXECUTE:
            # While the first launcher confines itself on another core.
            self._catalogue.load(spec.name)
            await desk.commands_prepared()
        context = desk.context(request.actor, mode_of(request), git_attribution=attribution)
        input_fd = desk.input_of(request)
        if input_fd is None:
            return await self._catalogue.dispatch(request.call, context)
        try:
            context = msgspec.structs.replace(context, input_fd=input_fd)
            return await self._catalogue.dispatch(request.call, context)
        finally:
            os.close(input_fd)

    async def _process(self, name: str, request: Any, context: RequestContext) -> Any:
        desk = self._desk
        if not self._process_methods:
            # Most workers start nothing in the background, and their start is hot.
            from moorage.worker.background import ProcessMethods  # noqa: PLC0415

            self._process_methods = ProcessMethods(desk, self._options.highest).handlers
        return await self._process_methods[name](request, context)

    async def _export_read(self, request: ExportReadRequest, _: RequestContext) -> ExportReadReply:
        return await self._desk.exports.read(request)

    async def _export_close(self, request: ExportCloseRequest, _: RequestContext) -> ExportClosed:
        return await self._desk.exports.close(request)

    async def _file_read(self, request: FileReadRequest, _: RequestContext) -> FileReadReply:
        return await self._desk.uploads.file_read(request, self._granted(request))

    async def _file_write(self, request: FileWriteRequest, _: RequestContext) -> FileWriteReply:
        return await self._desk.uploads.file_write(request, self._granted(request))

    async def _input_write(self, request: InputWriteRequest, _: RequestContext) -> InputWriteReply:
        return await self._desk.uploads.input_write(request)

    def _granted(self, request: FileReadRequest | FileWriteRequest) -> PermissionMode:
        """Return the mode of a request for a file's bytes, when the call may go ahead."""
        mode = mode_of(request)
        is_reading = isinstance(request, FileReadRequest)
        name, effect = ("file/read", Effect.READ) if is_reading else ("file/write", Effect.WRITE)
        check_call(name, effect, mode=mode, highest=self._options.highest)
        return mode
