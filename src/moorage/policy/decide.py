"""The one decision whether a tool call may go ahead, taken by host and worker alike."""

from __future__ import annotations

from moorage.errors import Refused
from moorage.policy.permission import Effect, PermissionMode, allows, is_within


def check_call(
    tool_name: str, effect: Effect, *, mode: PermissionMode, highest: PermissionMode
) -> None:
    """Return when the call may go ahead.

    Raises:
        Refused: ``mode`` is wider than this worker or session was started for (reason
            ``mode_not_granted``), or the tool writes and the mode is ``read_only`` (reason
            ``boundary_denied``).
    """
    if not is_within(mode, highest):
        raise Refused(
            f"permission mode {mode.value} is wider than {highest.value}, "
            "the widest that the user granted here.",
            reason="mode_not_granted",
            hint="The user can change the session's mode.",
        )
    if not allows(mode, effect):
        raise Refused(
            f"{tool_name} would change the workspace, and the permission mode is {mode.value}.",
            reason="boundary_denied",
            hint="The user can change the session's mode.",
        )
