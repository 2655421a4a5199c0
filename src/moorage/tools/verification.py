"""The account of a recognised check: did it pass, in which state of the workspace, what failed."""

from __future__ import annotations

import os
from collections import OrderedDict
from hashlib import sha256
from typing import Any

from moorage.process.foreground import ForegroundResult
from moorage.process.output import clean
from moorage.tools.checks import Check

_MOST_REMEMBERED = 256
_RUNNERS = "node_modules/.bin"


class Repeats:
    """How often each check failed before in one state of the workspace; for information only."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._failures: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def count(self, session: str, command_hash: str, revision: str, *, failed: bool) -> int:
        """Return how often the check failed before, and remember how it went now."""
        key = (session, command_hash, revision)
        before = self._failures.pop(key, 0)
        if failed:
            self._failures[key] = before + 1
            if len(self._failures) > _MOST_REMEMBERED:
                self._failures.popitem(last=False)
        return before


def command_hash(command: str) -> str:
    """Return the short name of a command."""
    return sha256(command.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def account(
    check: Check, result: ForegroundResult, *, scope: str, revision: str, command: str
) -> dict[str, Any]:
    """Return the account of a check that ended; ``command`` is the one that was asked for."""
    has_passed: bool | None = result.outcome == "exited" and result.exit_code == 0
    if result.outcome == "promoted":
        has_passed = None  # Until the end of the process is known.
    found: dict[str, Any] = {
        "kind": "verification",
        "check": check.kind,
        "scope": scope,
        "passed": has_passed,
        "workspace_revision": revision,
        "command_hash": command_hash(command),
    }
    if has_passed is False:
        # Its patterns take longer to make than most commands take to run.
        from moorage.tools.failure_summary import summarise  # noqa: PLC0415

        printed = b"\n".join(stream.kept().join() for stream in (result.stdout, result.stderr))
        summary = summarise(clean(printed.decode("utf-8", "replace")).text)
        found["failure_summary"] = summary
        found["next_suggestions"] = [
            f"look at {place['path']}, line {place['line']}" for place in summary["locations"][:3]
        ]
    return found


def with_local_runner(command: str, check: Check, folder: int, root: str) -> str | None:
    """Return the command with ``npx`` replaced by the project's own copy of the tool.

    ``folder`` is the open folder that the command starts in. ``None`` when the project has no copy:
    ``npx`` might then download one.
    """
    runner = check.runner
    if runner is None:
        return command
    local = f"{_RUNNERS}/{runner.tool}"
    below = f"{check.folder}/{local}" if check.folder else local
    if _exists(below, folder):
        found = f"./{local}"
    elif _exists(f"{root}/{local}", None):
        found = f"{root}/{local}"
    else:
        return None
    return command[: runner.start] + found + command[runner.end :]


def _exists(path: str, folder: int | None) -> bool:
    try:
        os.stat(path, dir_fd=folder)
    except OSError:
        return False
    return True
