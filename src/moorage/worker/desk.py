"""Everything one bound session works with inside the worker, opened and closed as one."""

from __future__ import annotations

import os
from collections.abc import Mapping

import anyio

from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor
from moorage.protocol.binding import Binding
from moorage.worker.exports import Exports
from moorage.worker.options import WorkerOptions
from moorage.worker.place import Place, prepare
from moorage.worker.uploads import Uploads
from moorage.workspace.redact import Redactor
from moorage.workspace.root import WorkspaceRoot


class Desk:
    """The workspace, its folders, what is published and uploaded, and the prepared variables."""

    def __init__(self, binding: Binding, place: Place, root: WorkspaceRoot) -> None:
        """Put the parts together; ``open`` is the way to make one."""
        self.session = binding.session
        self.place = place
        self.root = root
        self.redactor = Redactor()
        self.exports = Exports(place.state)
        self.uploads = Uploads(root)
        self._removes_root = binding.remove_workspace_on_exit
        self._forwarded = binding.environment
        self._prepared = anyio.Event()

    @classmethod
    async def open(cls, binding: Binding, options: WorkerOptions, _: Supervisor) -> Desk:
        """Open the workspace and make the folders of a session."""
        place = prepare(binding, options)
        root = WorkspaceRoot.open(
            place.root,
            options.writable_roots,
            readable=(place.state,),
            hidden_folders=options.hidden_paths,
        )
        return cls(binding, place, root)

    async def prepare_commands(self) -> None:
        self._prepared.set()

    async def commands_prepared(self) -> None:
        await self._prepared.wait()

    def variables(self, mode: PermissionMode) -> Mapping[str, str]:
        return dict(os.environ) | self._forwarded

    def close(self) -> None:
        self.exports.close_all()
        self.root.close()
        self.place.remove(with_root=self._removes_root)
