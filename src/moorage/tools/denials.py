"""Tell that confinement stopped a command, and say what the user can do about it.

A denial can only be guessed, from what the command printed. What the file's own permissions forbid
anyway, in a place that the confinement leaves open, is not called a denial.
"""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from moorage.confine.report import NOT_ENFORCED_BY_A_PROVIDER, not_enforced
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moorage.confine.plan import Plan
    from moorage.confine.provider import ConfinementProvider
    from moorage.process.foreground import ForegroundResult

_SIGNATURES = (b"permission denied", b"operation not permitted", b"read-only file system")
_CANNOT_EXECUTE = 126
"""What a shell exits with when it found the program and was not permitted to start it."""

_MOST_COMPLAINTS = 32
"""Beyond so many lines nobody looks at each; they count as a denial."""

_QUOTED = re.compile("'([^']+)'|\"([^\"]+)\"|\u2018([^\u2019]+)\u2019")

_AROUND = "'\"\u2018\u2019,:;()"
_ABSOLUTE = re.compile(f"[{_AROUND}]?/")


def sandbox_account(
    plan: Plan,
    cwd: str,
    result: ForegroundResult,
    provider: ConfinementProvider | None = None,
) -> dict[str, Any] | None:
    """Return what confined the command and whether it met a denial; ``None`` when nothing did."""
    if not plan.mode.is_restricted:
        return None
    account: dict[str, Any] = {
        "mode": plan.mode.value,
        "enforcement": "full",
        "denied": was_denied(plan, cwd, result),
        "not_enforced": list(_gaps() if provider is None else NOT_ENFORCED_BY_A_PROVIDER),
    }
    if provider is not None:
        account["provider"] = provider.argv[0]
    return account


def was_denied(plan: Plan, cwd: str, result: ForegroundResult) -> bool:
    """Return whether a failing command complained of what looks like a denial.

    ``cwd`` is where it started: relative names in its complaints are taken from there.
    """
    kept = [stream.kept().join() for stream in (result.stderr, result.stdout)]
    return bool(find_denials(plan, cwd, result.exit_code, b"\n".join(kept)))


def find_denials(plan: Plan, cwd: str, exit_code: int, output: bytes) -> tuple[str, ...]:
    """Return what a failing command's output says that looks like a denial, in a few words each."""
    if exit_code == 0:
        return ()
    complaints = [line for line in output.splitlines() if _signatures_in(line)]
    if len(complaints) <= _MOST_COMPLAINTS:
        is_start = exit_code == _CANNOT_EXECUTE
        complaints = [
            line
            for line in complaints
            if not _is_explained(
                line.decode(errors="surrogateescape"), plan, cwd, is_start=is_start
            )
        ]
    found = {signature for line in complaints for signature in _signatures_in(line)}
    return tuple(sorted(found))


def _signatures_in(line: bytes) -> list[str]:
    lower = line.lower()
    return [signature.decode() for signature in _SIGNATURES if signature in lower]


def _is_explained(complaint: str, plan: Plan, cwd: str, *, is_start: bool) -> bool:
    """Return whether permissions of a named file inside the roots explain the complaint."""
    roots = [*plan.writable_roots, *plan.private_paths]
    is_explained = False
    for name in _names_in(complaint.replace("\0", "")):
        path = os.path.realpath(f"{cwd}/{name}" if name[:1] != "/" else name)
        if not any(path == root or path.startswith(f"{root}/") for root in roots):
            return False
        is_explained = is_explained or _is_forbidden(path, plan.mode, is_start=is_start)
    return is_explained


def _names_in(complaint: str) -> Sequence[str]:
    """Return what may be paths in a line such as ``cat: a: Permission denied``."""
    # Who complains comes first, up to a colon.
    absolute = [word.strip(_AROUND) for word in complaint.split()[1:] if _ABSOLUTE.match(word)]
    quoted = ["".join(groups) for groups in _QUOTED.findall(complaint)]
    fields = complaint.split(": ")
    return [*absolute, *(quoted or (fields[1:] if len(fields) > 2 else ()))]


def _is_forbidden(path: str, mode: PermissionMode, *, is_start: bool) -> bool:
    """Return whether this worker, which nothing confines, is not permitted it either."""
    may_write = mode is PermissionMode.STANDARD
    wanted = os.R_OK | os.W_OK if may_write else os.R_OK
    if is_start:
        wanted = os.X_OK
    elif may_write and not os.path.lexists(path):
        path = path.rpartition("/")[0]
    return os.path.lexists(path) and not os.access(path, wanted)


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
    from moorage.confine import call_filter, landlock  # noqa: PLC0415

    is_filtered = call_filter.is_known()
    return not_enforced(landlock.abi(), sys.platform, are_calls_filtered=is_filtered)
