"""What the user granted this worker when it was started."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from moorage.confine.provider import ConfinementProvider, check_provider
from moorage.policy.permission import PermissionMode


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's own limits; no request can widen them."""

    state: Path
    highest: PermissionMode = PermissionMode.STANDARD
    writable_roots: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    confinement: ConfinementProvider | None = None


def options_of(arguments: argparse.Namespace) -> WorkerOptions:
    """Return the options that stand in parsed arguments; folders become real paths."""
    state = arguments.state or os.path.expanduser("~/.moorage-worker")
    return WorkerOptions(
        state=Path(os.path.realpath(state)),
        highest=PermissionMode(arguments.mode),
        writable_roots=tuple(map(os.path.realpath, arguments.writable)),
        hidden_paths=tuple(map(os.path.realpath, arguments.hide)),
        confinement=_provider(arguments.confine_with),
    )


def _provider(text: str) -> ConfinementProvider | None:
    if not text:
        return None
    fields = msgspec.json.decode(text, type=dict[str, tuple[str, ...] | str])
    return check_provider(msgspec.convert(fields, ConfinementProvider), path="--confine-with")
