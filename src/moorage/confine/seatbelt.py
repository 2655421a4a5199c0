"""The Seatbelt profile of a plan, for ``sandbox-exec`` on macOS.

Pure: the text is what is tested. It says what the Landlock rules say, as far as Seatbelt can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.confine.plan import DEVICES, check
from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moorage.confine.plan import Plan

PROGRAM = "/usr/bin/sandbox-exec"

_TERMINALS = r'(regex #"^/dev/(ptmx|ttys[0-9]+)$")'


def profile(plan: Plan) -> str:
    """Return the profile that confines a program to the plan; later rules win.

    Raises:
        ConfigError: the plan is unconfined or contradicts itself.
    """
    if not plan.mode.is_restricted:
        raise ConfigError("an unconfined plan has no Seatbelt profile.")
    check(plan)
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    devices = [f"(literal {quote(device)})" for device in DEVICES]
    if plan.mode is PermissionMode.STANDARD:
        devices.append(_TERMINALS)
    lines += _rule("allow file-write* file-ioctl", devices)
    # Names and times of hidden files stay visible, as under Landlock; their content does not.
    lines += _rule("deny file-read-data file-write*", _subpaths(plan.hidden_paths))
    lines += _rule("allow file-read*", _subpaths(plan.readable_paths))
    written = plan.private_paths
    if plan.mode is PermissionMode.STANDARD:
        written = (*plan.writable_roots, *written)
    lines += _rule("allow file-read* file-write*", _subpaths(written))
    lines.append("(deny signal (target others))")
    lines.append("(allow signal (target same-sandbox))")
    lines.append("(deny process-info-pidinfo (target others))")
    lines.append("(deny mach-priv-task-port)")
    return "\n".join(lines) + "\n"


def wrap(plan: Plan, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the argument vector that starts ``argv`` under the plan's profile."""
    return (PROGRAM, "-p", profile(plan), *argv)


def quote(path: str) -> str:
    """Return a path as a string of the profile language.

    Raises:
        ConfigError: the path holds a control character, which the language cannot say safely.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise ConfigError(f"{path!r} holds a control character and cannot be confined.")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _subpaths(paths: Sequence[str]) -> list[str]:
    return [f"(subpath {quote(path)})" for path in paths]


def _rule(action: str, filters: Sequence[str]) -> list[str]:
    """Return one rule with its filters; none without filters, for that would mean everything."""
    return [f"({action}\n    " + "\n    ".join(filters) + ")"] if filters else []
