"""Everything one bound session works with inside the worker, opened and closed as one."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import anyio

from moorage.errors import ExecutionError
from moorage.policy.permission import PermissionMode
from moorage.process import login, variables
from moorage.tools.catalogue import ToolContext
from moorage.worker.exports import Exports
from moorage.worker.place import Place, prepare
from moorage.worker.uploads import Uploads
from moorage.workspace.redact import Redactor
from moorage.workspace.root import WorkspaceRoot
from moorage.workspace.secrets.environment import secret_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.process.login import LoginCapture
    from moorage.process.managed.control import ProcessManager
    from moorage.process.supervisor import Supervisor
    from moorage.protocol.binding import Binding
    from moorage.protocol.processes import ProcessEvent
    from moorage.protocol.tool_calls import ExecuteRequest
    from moorage.worker.options import WorkerOptions

logger = logging.getLogger(__name__)

RECORDS = "processes"
"""The folder that is there once something was started in the background."""

CONTEXTS = 64
"""Actors, times modes, whose contexts are kept; an older one is made again."""


class Desk:
    """The workspace, its folders, what is published and uploaded, and what commands start with."""

    def __init__(
        self,
        binding: Binding,
        options: WorkerOptions,
        supervisor: Supervisor,
        on_process_event: Callable[[ProcessEvent], None],
    ) -> None:
        """Open the workspace and make the folders of the session.

        Raises:
            RetainedStateMissing: the workspace must exist and does not.
            ConfigError: a folder cannot be made or used, or overlaps Moorage's own.
        """
        self.place: Place = prepare(binding, options)
        with suppress(ExecutionError):  # the first command meets it again, and tells
            supervisor.remove_at_end(str(self.place.temporary))
        self.root = WorkspaceRoot.open(
            self.place.root,
            options.writable_roots,
            readable=(self.place.state,),
            hidden_folders=options.hidden_paths,
        )
        self.exports = Exports(self.place.state)
        self.uploads = Uploads(self.root, self.place.temporary)
        self._binding = binding
        self._options = options
        self._supervisor = supervisor
        self._redactor = Redactor(secret_values(binding.environment))
        self._on_process_event = on_process_event
        self._processes: ProcessManager | None = None
        self._are_commands_prepared = anyio.Event()
        self.context = lru_cache(CONTEXTS)(self._context)

    @property
    def session(self) -> str:
        """Return the id of the bound session."""
        return self._binding.session

    @property
    def processes(self) -> ProcessManager:
        """Return the background processes of the session, opened when they are first needed.

        Raises:
            ConfigError: their records cannot be kept.
        """
        if self._processes is None:
            processes = self._make_processes()
            processes.open_now()
            self._processes = processes
        return self._processes

    def _make_processes(self) -> ProcessManager:
        # Most workers start nothing in the background, and their start is hot.
        from moorage.process.managed.control import ProcessManager  # noqa: PLC0415
        from moorage.tools.denials import find_denials  # noqa: PLC0415

        return ProcessManager(
            self._supervisor,
            self.place.state,
            redactor=lambda: self._redactor,
            on_event=self._on_process_event,
            find_denials=find_denials,
        )

    async def take_up_processes(self) -> None:
        """Settle what has become of the processes of earlier workers, where there are any.

        Raises:
            ConfigError: their records cannot be kept.
        """
        with suppress(FileNotFoundError):
            os.lstat(self.place.state / RECORDS)
            processes = self._make_processes()
            await processes.open()
            self._processes = processes

    async def end_processes(self) -> None:
        """End every background process that this worker holds.

        Raises:
            ShutdownIncomplete: something survived SIGKILL.
        """
        if self._processes is not None:
            await self._processes.aclose()

    async def prepare_commands(self, capture: LoginCapture) -> None:
        """Have a launcher ready for the usual mode, and take the login environment."""
        with suppress(ExecutionError):  # the first command meets it again, and tells
            await self._supervisor.prepare(self.place.plan(self._options.highest))
        found = await login.finish(capture, self._supervisor)
        if found.problem:
            logger.warning("commands start without the login environment: %s", found.problem)
        base = variables.merged_login(capture.base, found.variables) | self._binding.environment
        self._redactor = Redactor(secret_values(base))
        for mode in PermissionMode:
            plan = self.place.plan(mode)
            start = variables.prepared(
                base,
                mode=mode,
                temporary=str(self.place.temporary),
                cache=str(self.place.cache),
            )
            self._supervisor.set_base_variables(plan, start)
        self.context.cache_clear()
        self._are_commands_prepared.set()

    async def commands_prepared(self) -> None:
        """Return when commands can start with the login environment."""
        if not self._are_commands_prepared.is_set():
            await self._are_commands_prepared.wait()

    def _context(self, actor: str, mode: PermissionMode, *, git_attribution: bool) -> ToolContext:
        """Return what the tools of one actor use in one mode."""
        return ToolContext(
            root=self.root,
            mode=mode,
            actor=actor,
            session=self._binding.session,
            plan=self.place.plan(mode),
            supervisor=self._supervisor,
            redactor=self._redactor,
            variables={},
            state_dir=self.place.state,
            exports=self.exports,
            find_processes=lambda: self.processes,
            git_attribution=git_attribution,
        )

    def input_of(self, request: ExecuteRequest) -> int | None:
        """Return the descriptor of a call's uploaded input, which is now the caller's."""
        return self.uploads.take_input(request.input) if request.input else None

    def close(self) -> None:
        """Let go of the folders; the root goes too when the binding says so and all ended well."""
        self.exports.close_all()
        self.uploads.close()
        self.root.close()
        self.place.remove(with_root=self._binding.remove_workspace_on_exit)
