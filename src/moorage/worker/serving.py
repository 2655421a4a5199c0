"""Runs the event loop of a worker: one supervisor, one provider, one connection or many."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio

from moorage.confine.nursery import tree
from moorage.connection.worker_end import serve
from moorage.errors import ExecutionError
from moorage.process.supervisor import Supervisor
from moorage.protocol.secret import Secret
from moorage.transports.stdio import FdTransport
from moorage.worker.native import NativeProvider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

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


class Stay:
    """Where a worker that outlives its host listens, and what it got at its start."""

    def __init__(self, folder: Path, token: str, ready_fd: int, idle_seconds: float) -> None:
        """Keep them; ``ready_fd`` is closed once hosts can connect."""
        self.folder = folder
        self.token = Secret(token) if token else None
        self.ready_fd = ready_fd
        self.idle_seconds = idle_seconds


def serve_streams(
    options: WorkerOptions, nursery: Nursery, capture: LoginCapture, streams: Streams
) -> int:
    """Serve one host until it closes the connection; return the exit code of the worker."""
    return _run(nursery, _serve, options, nursery, capture, streams)


def serve_socket(
    options: WorkerOptions, nursery: Nursery, capture: LoginCapture, stay: Stay
) -> int:
    """Serve every host that connects until the worker is to end; return its exit code."""
    return _run(nursery, _serve_many, options, nursery, capture, stay)


def _run(nursery: Nursery, serve_all: Callable[..., Awaitable[None]], *arguments: Any) -> int:
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="moorage-worker: %(message)s"
    )
    exit_code = 0
    try:
        anyio.run(serve_all, *arguments)
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


async def _serve_many(
    options: WorkerOptions, nursery: Nursery, capture: LoginCapture, stay: Stay
) -> None:
    # Late: a worker on standard streams starts sooner without it.
    from moorage.worker.staying.detached import DetachedLimits, DetachedWorker  # noqa: PLC0415

    limits = DetachedLimits(idle_seconds=stay.idle_seconds)
    async with Supervisor(nursery, provider=options.confinement) as supervisor:
        worker = DetachedWorker(
            NativeProvider(options, supervisor, capture),
            stay.folder,
            stay.token,
            is_idle=lambda: not tree.has_programs(os.getpid()),
            limits=limits,
        )
        await worker.run(stay.ready_fd)


def _leaves(group: BaseExceptionGroup[ExecutionError]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
