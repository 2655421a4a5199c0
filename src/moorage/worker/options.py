"""What the user granted this worker when it was started; read before anything heavy is imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine.plan import Plan, contains
from moorage.confine.provider import ConfinementProvider, check_provider
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    import argparse


class WorkerOptions(NamedTuple):
    """The worker's own limits; no request can widen them."""

    state: Path
    highest: PermissionMode = PermissionMode.STANDARD
    writable_roots: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    confinement: ConfinementProvider | None = None

    def login_plan(self) -> Plan:
        """Return how the login shell is confined: it reads what commands may and writes nothing."""
        if self.highest.is_restricted:
            return Plan(mode=PermissionMode.READ_ONLY, hidden_paths=self.hidden_paths)
        return Plan(mode=PermissionMode.UNCONFINED)


def options_of(arguments: argparse.Namespace) -> WorkerOptions:
    """Return the options that stand in parsed arguments; folders become real paths.

    Raises:
        ConfigError: the confinement provider cannot stand in for the kernel.
    """
    state = os.path.realpath(arguments.state or os.path.expanduser("~/.moorage-worker"))
    hidden = tuple(map(os.path.realpath, arguments.hide))
    if not any(contains(path, state) for path in hidden):
        # Whoever started this worker named no home around it, and other sessions' logs lie here.
        hidden = (*hidden, state)
    return WorkerOptions(
        state=Path(state),
        highest=PermissionMode(arguments.mode),
        writable_roots=tuple(map(os.path.realpath, arguments.writable)),
        hidden_paths=hidden,
        confinement=_provider(arguments.confine_with),
    )


def _provider(text: str) -> ConfinementProvider | None:
    if not text:
        return None
    import json  # noqa: PLC0415 - rarely needed, and the start is hot

    fields = json.loads(text)
    words = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    provider = ConfinementProvider(enforcement=fields.get("enforcement", ""), **words)
    return check_provider(provider, path="--confine-with")
