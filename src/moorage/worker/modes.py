"""The permission mode that a request names, and that somebody acts at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.errors import ConfigError, InvalidArguments
from moorage.policy.permission import PermissionMode, parse_mode

if TYPE_CHECKING:
    from moorage.protocol.files import FileReadRequest, FileWriteRequest
    from moorage.protocol.processes import StartRequest
    from moorage.protocol.tool_calls import ExecuteRequest


def mode_of(
    request: ExecuteRequest | FileReadRequest | FileWriteRequest | StartRequest,
) -> PermissionMode:
    """Return the mode that a request names; somebody must be acting.

    Raises:
        InvalidArguments: the mode is unknown, or no actor is named.
    """
    if not request.actor:
        raise InvalidArguments("the request names no actor.")
    try:
        return parse_mode(request.permission_mode)
    except ConfigError as error:
        raise InvalidArguments(error.message) from error
