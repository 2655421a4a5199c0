"""The execution layer for AI agents: a workspace in whatever environment the user chose.

Public names are resolved when they are first used, so that ``import moorage`` stays cheap::

    async with moorage.open_session() as session:
        result = await session.run("pytest -q")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moorage.app.application import open_session
    from moorage.errors import (
        BackendUnavailable,
        ConfigError,
        ConfinementUnavailable,
        ConnectionLost,
        EnvironmentDied,
        ExecutionError,
        InvalidArguments,
        OutcomeUnknown,
        ProtocolMismatch,
        ProvisionError,
        Refused,
        ShutdownIncomplete,
        ToolFailed,
        UnknownTool,
        WorkerFailure,
    )
    from moorage.host.completions import Completion, Completions
    from moorage.host.processes import Processes
    from moorage.host.results import (
        Artifact,
        CommandResult,
        FileChange,
        FileChanged,
        FileText,
        ProcessChanged,
    )
    from moorage.host.session import Session
    from moorage.policy.permission import PermissionMode
    from moorage.protocol.processes import OutputSnapshot, ProcessRecord
    from moorage.protocol.tool_calls import ContentPart, ToolResult
    from moorage.sdk.attaching import AttachedPeerV4
    from moorage.sdk.backend import (
        ExecutionBackendV4,
        ExecutionContextV4,
        ExecutionProcessV4,
        ExecutionToolRequestV4,
    )
    from moorage.sdk.delegating import delegate_execution_backend_v4
    from moorage.sdk.running import run_execution_backend_v4

__all__ = [
    "Artifact",
    "AttachedPeerV4",
    "BackendUnavailable",
    "CommandResult",
    "Completion",
    "Completions",
    "ConfigError",
    "ConfinementUnavailable",
    "ConnectionLost",
    "ContentPart",
    "EnvironmentDied",
    "ExecutionBackendV4",
    "ExecutionContextV4",
    "ExecutionError",
    "ExecutionProcessV4",
    "ExecutionToolRequestV4",
    "FileChange",
    "FileChanged",
    "FileText",
    "InvalidArguments",
    "OutcomeUnknown",
    "OutputSnapshot",
    "PermissionMode",
    "ProcessChanged",
    "ProcessRecord",
    "Processes",
    "ProtocolMismatch",
    "ProvisionError",
    "Refused",
    "Session",
    "ShutdownIncomplete",
    "ToolFailed",
    "ToolResult",
    "UnknownTool",
    "WorkerFailure",
    "delegate_execution_backend_v4",
    "open_session",
    "run_execution_backend_v4",
]

_ROOMS = {
    "open_session": "moorage.app.application",
    "Session": "moorage.host.session",
    "PermissionMode": "moorage.policy.permission",
    "Completion": "moorage.host.completions",
    "Completions": "moorage.host.completions",
    "Processes": "moorage.host.processes",
    "OutputSnapshot": "moorage.protocol.processes",
    "ProcessRecord": "moorage.protocol.processes",
    "ContentPart": "moorage.protocol.tool_calls",
    "ToolResult": "moorage.protocol.tool_calls",
    **dict.fromkeys(
        (
            "Artifact",
            "CommandResult",
            "FileChange",
            "FileChanged",
            "FileText",
            "ProcessChanged",
        ),
        "moorage.host.results",
    ),
    **dict.fromkeys(
        (
            "ExecutionBackendV4",
            "ExecutionContextV4",
            "ExecutionProcessV4",
            "ExecutionToolRequestV4",
        ),
        "moorage.sdk.backend",
    ),
    "AttachedPeerV4": "moorage.sdk.attaching",
    "delegate_execution_backend_v4": "moorage.sdk.delegating",
    "run_execution_backend_v4": "moorage.sdk.running",
}


def __getattr__(name: str) -> object:
    """Import the room that holds a public name, the first time the name is used."""
    if name not in __all__:
        raise AttributeError(f"module 'moorage' has no attribute {name!r}")
    value: object = getattr(import_module(_ROOMS.get(name, "moorage.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
