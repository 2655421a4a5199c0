"""What the user granted this worker when it was started."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from moorage.policy.permission import PermissionMode


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's own limits; no request can widen them."""

    state: Path
    highest: PermissionMode = PermissionMode.STANDARD
    writable_roots: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    confinement: tuple[str, ...] = ()


def options_of(arguments: argparse.Namespace) -> WorkerOptions:
    """Return the options that stand in parsed arguments; folders become real paths."""
    state = arguments.state or os.path.expanduser("~/.moorage-worker")
    return WorkerOptions(
        state=Path(os.path.realpath(state)),
        highest=PermissionMode(arguments.mode),
        writable_roots=tuple(map(os.path.realpath, arguments.writable)),
        hidden_paths=tuple(map(os.path.realpath, arguments.hide)),
        confinement=tuple(arguments.confine_with),
    )
