"""Runs the event loop of a worker: one supervisor, one provider, one connection."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import anyio

from moorage.connection.worker_end import serve
from moorage.errors import ExecutionError
from moorage.process.supervisor import Supervisor
from moorage.protocol.secret import Secret
from moorage.transports.stdio import FdTransport
from moorage.worker.native import NativeProvider

if TYPE_CHECKING:
    from moorage.confine.nursery import Nursery
    from moorage.process.login import LoginCapture
    from moorage.worker.options import WorkerOptions

logger = logging.getLogger(__name__)


class Streams:
    """The two descriptors that frames travel on, and the token that the host must show."""

    def __init__(self, frames_in: int, frames_out: int, token: str) -> None:
        """Keep them; the transport owns the descriptors."""
        self.frames_in = frames_in
        self.frames_out = frames_out
        self.token = Secret(token) if token else None


def serve_streams(
    options: WorkerOptions, nursery: Nursery, capture: LoginCapture, streams: Streams
) -> int:
    """Serve one host until it closes the connection; return the exit code of the worker."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="moorage-worker: %(message)s"
    )
    exit_code = 0
    try:
        anyio.run(_serve, options, nursery, capture, streams)
    except* ExecutionError as failures:
        for failure in _leaves(failures):
            logger.error("%s", failure)  # noqa: TRY400 - the sentence is for a person
        exit_code = 1
    finally:
        nursery.close()
    return exit_code


async def _serve(
    options: WorkerOptions, nursery: Nursery, capture: LoginCapture, streams: Streams
) -> None:
    transport = FdTransport(streams.frames_in, streams.frames_out)
    async with Supervisor(nursery, provider=options.confinement) as supervisor:
        await serve(transport, NativeProvider(options, supervisor, capture), token=streams.token)


def _leaves(group: BaseExceptionGroup[ExecutionError]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
