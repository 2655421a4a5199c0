"""Tell that confinement stopped a command, and say what the user can do about it."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from moorage.confine.report import not_enforced
from moorage.policy.permission import PermissionMode
from moorage.process.foreground import ForegroundResult

_SIGNATURES = (b"permission denied", b"operation not permitted", b"read-only file system")


def sandbox_account(mode: PermissionMode, result: ForegroundResult) -> dict[str, Any] | None:
    """Return what confined the command and whether it met a denial; ``None`` when nothing did."""
    if not mode.is_restricted:
        return None
    return {
        "mode": mode.value,
        "enforcement": "full",
        "denied": was_denied(result),
        "not_enforced": list(_gaps()),
    }


def was_denied(result: ForegroundResult) -> bool:
    """Return whether a failing command complained of what a denial looks like."""
    if result.exit_code == 0:
        return False
    printed = (result.stderr.kept().join() + result.stdout.kept().join()).lower()
    return any(signature in printed for signature in _SIGNATURES)


def guidance(mode: PermissionMode) -> str:
    """Return what to do after a denial."""
    if mode is PermissionMode.READ_ONLY:
        return (
            "Denied by the confinement: the permission mode is read_only, so commands can write "
            "nothing in the workspace. Do not look for another command; the user can change the "
            "session's mode."
        )
    return (
        "Denied by the confinement, as it seems: commands can write only below the writable roots. "
        "Do not look for another command; the user can add a root (--writable DIR, or "
        "writable_roots in the configuration) or change the session's mode."
    )


@lru_cache(maxsize=1)
def _gaps() -> tuple[str, ...]:
    # The system calls come with ctypes, which the start of a worker does without.
    from moorage.confine import landlock  # noqa: PLC0415

    return not_enforced(landlock.abi(), sys.platform)
