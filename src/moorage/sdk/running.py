"""Serves a backend to the one host that started this program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.connection.worker_end import serve
from moorage.errors import LocalProtocolViolation, WorkerFailure
from moorage.protocol.methods import METHODS
from moorage.sdk.backend import ExecutionBackendV4, ExecutionContextV4, MethodHandlerV4
from moorage.transports.stdio import FdTransport

if TYPE_CHECKING:
    from moorage.connection.provider import Handler, RequestContext
    from moorage.protocol.binding import Binding
    from moorage.transports.transport import Transport

_STDIN, _STDOUT, _STDERR = 0, 1, 2


async def run_execution_backend_v4(
    backend: ExecutionBackendV4, *, transport: Transport | None = None
) -> None:
    """Serve the backend until the host is gone, then close it; what its close raises is raised.

    The host is reached over standard input and output, unless a ``transport`` is given. Output of
    anything else in this program, such as ``print``, goes to standard error from then on.

    Framing, the host's token, ids, cancellation, nested calls and the order of the end are taken
    care of. Nothing is created, retried or replaced, and no variable of this program is forwarded.
    """
    await serve(transport or FdTransport(*private_streams()), _Served(backend))


def private_streams() -> tuple[int, int]:
    """Move the frames away from the standard streams, so that no stray print can mix with them."""
    frames_in, frames_out = os.dup(_STDIN), os.dup(_STDOUT)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, _STDIN)
    os.close(null)
    os.dup2(_STDERR, _STDOUT)
    return frames_in, frames_out


class _Served:
    """A backend as the worker's end of a connection wants it."""

    def __init__(self, backend: ExecutionBackendV4) -> None:
        self._backend = backend
        self._binding: Binding | None = None
        self.capabilities = frozenset(backend.capabilities)
        self.methods: Mapping[str, Handler] = {
            name: partial(self._handle, name, handler) for name, handler in backend.methods.items()
        }

    async def initialize(self, binding: Binding, context: RequestContext) -> str:
        given = ExecutionContextV4(context, binding)
        try:
            root = await self._backend.initialize(binding, given)
        finally:
            given.end()
        self._binding = binding
        return root or binding.root

    async def close(self) -> None:
        if self._backend.close is not None:
            await self._backend.close()

    async def _handle(
        self, name: str, handler: MethodHandlerV4, request: Any, context: RequestContext
    ) -> Any:
        if self._binding is None:
            raise LocalProtocolViolation("the backend is not initialized.")
        given = ExecutionContextV4(context, self._binding)
        try:
            return _reply(name, await handler(request, given))
        finally:
            given.end()


def _reply(name: str, value: Any) -> Any:
    """Return what a handler answered as the reply of its method."""
    try:
        return msgspec.convert(value, METHODS[name].reply, from_attributes=False)
    except msgspec.ValidationError as error:
        raise WorkerFailure(
            f"{name} was done, but the backend's answer is none: {error}.",
            hint="What was asked for may have happened; look before you repeat it.",
        ) from error
