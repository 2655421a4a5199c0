"""The local backend: a worker on this machine, confined by the kernel.

It is a child that ends with its host, or stays for the next one where the placement says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec

from moorage.backends.backend import Backend, Placement
from moorage.backends.ending import end_worker
from moorage.backends.grace import grace_seconds
from moorage.backends.stay import Grants, Stay, StayingLimits
from moorage.backends.staying import reach
from moorage.confine.own_interpreter import own_interpreter
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

_START = "from moorage.worker.__main__ import main; raise SystemExit(main())"


class LocalBackend:
    """Starts a worker, or finds the one that stays; the workspace is a folder of this machine."""

    name = "local"

    def __init__(self, limits: StayingLimits | None = None) -> None:
        """Keep the bounds of workers that stay."""
        self._limits = limits or StayingLimits()

    def keeps_worker(self, placement: Placement) -> bool:
        """Return whether the session has a worker that stays."""
        return placement.stays_in is not None

    def root(self, placement: Placement) -> str:
        """Return the workspace folder."""
        return placement.workspace

    async def open_transport(self, placement: Placement) -> Transport:
        """Start the worker with our own interpreter, or find the one that stays."""
        if placement.stays_in is not None:
            return await reach(_stay(placement, placement.stays_in), self._limits)
        return await ChildTransport.start(
            worker_command(placement),
            variables=worker_variables(os.environ),
            grace_seconds=grace_seconds(placement.profile),
        )

    async def end_worker(self, placement: Placement) -> None:
        """End the worker that stays, if there is one."""
        if placement.stays_in is not None:
            await anyio.to_thread.run_sync(end_worker, placement.stays_in, self._limits)

    async def release(self, placement: Placement) -> None:
        """Do nothing: the workspace is the user's own, and the worker has ended, or stays."""


def worker_command(placement: Placement) -> tuple[str, ...]:
    """Return the argument vector of the worker; what the user granted travels in it."""
    # -P: a file of the current folder must not be imported in place of a library's module.
    options = [f"--state={placement.worker_state}", f"--mode={placement.mode.value}"]
    options += [f"--writable={root}" for root in placement.writable_roots]
    options += [f"--hide={path}" for path in placement.hidden_paths]
    if placement.confinement is not None:
        provider = msgspec.json.encode(placement.confinement._asdict()).decode()
        options.append(f"--confine-with={provider}")
    return (*own_interpreter(), "-P", "-c", _START, *options)


def _stay(placement: Placement, folder: Path) -> Stay:
    """Return what the worker that stays for the placement is started with."""
    # Late: it is slow, and a worker that ends with its host does without.
    from importlib.metadata import version  # noqa: PLC0415

    provider = placement.confinement
    return Stay(
        folder=folder,
        session=placement.session,
        grants=Grants(
            version=version("moorage"),
            mode=placement.mode,
            writable_roots=placement.writable_roots,
            hidden_paths=placement.hidden_paths,
            state=str(placement.worker_state),
            confinement="" if provider is None else repr(provider),
        ),
        argv=worker_command(placement),
        variables=worker_variables(os.environ),
        grace_seconds=grace_seconds(placement.profile),
    )


def worker_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables without Moorage's own, which are no business of a command."""
    return {name: value for name, value in variables.items() if not name.startswith("MOORAGE_")}


BACKEND: Backend = LocalBackend()
