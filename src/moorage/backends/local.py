"""The local backend: a worker on this machine, started as a child and confined by the kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import msgspec

from moorage.backends.backend import Backend, Placement
from moorage.backends.grace import grace_seconds
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

_START = "from moorage.worker.__main__ import main; raise SystemExit(main())"


class LocalBackend:
    """Starts one worker per connection; the workspace is a folder of this machine."""

    name = "local"

    def root(self, placement: Placement) -> str:
        """Return the workspace folder."""
        return placement.workspace

    async def open_transport(self, placement: Placement) -> Transport:
        """Start the worker with the interpreter that runs this program."""
        return await ChildTransport.start(
            worker_command(placement),
            variables=worker_variables(os.environ),
            grace_seconds=grace_seconds(placement.profile),
        )

    async def release(self, placement: Placement) -> None:
        """Do nothing: the workspace is the user's own folder, and the worker has ended."""


def worker_command(placement: Placement) -> tuple[str, ...]:
    """Return the argument vector of the worker; what the user granted travels in it."""
    # -P: a file of the current folder must not be imported in place of a library's module.
    options = [f"--state={placement.worker_state}", f"--mode={placement.mode.value}"]
    options += [f"--writable={root}" for root in placement.writable_roots]
    options += [f"--hide={path}" for path in placement.hidden_paths]
    if placement.confinement is not None:
        provider = msgspec.json.encode(placement.confinement._asdict()).decode()
        options.append(f"--confine-with={provider}")
    return (sys.executable, "-P", "-c", _START, *options)


def worker_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables without Moorage's own, which are no business of a command."""
    return {name: value for name, value in variables.items() if not name.startswith("MOORAGE_")}


BACKEND: Backend = LocalBackend()
