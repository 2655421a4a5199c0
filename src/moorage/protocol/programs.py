"""Programs that call tools through the host: the messages of ``run_code``.

The result keeps the casing of the wire; whoever runs programs translates.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.protocol.tool_calls import Actor, ContentPart, ModeText

ResultView = Literal["structured", "content", "none"]


class ProgramTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that a program may call."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    description: str = ""
    input_schema: dict[str, Any] = {}


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Source text and the only tools it may call.

    A ``result_view`` that this side does not know is refused, never run with the default.
    """

    code: str
    tools: Annotated[tuple[ProgramTool, ...], Meta(max_length=10_000)] = ()
    result_view: ResultView = "structured"


class RunCodeRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Run one program; ``timeout_ms`` 0 means no deadline."""

    program: Program
    actor: Actor
    timeout_ms: Annotated[int, Meta(ge=0)] = 0
    permission_mode: ModeText = ""
    git_attribution_enabled: bool = False


class RunCodeReply(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "logs": "Logs",
        "value": "Value",
        "error": "Error",
        "media": "Media",
        "call_summary": "CallSummary",
    },
):
    """What a program returned; a program that failed is an ordinary reply with ``error`` set."""

    logs: tuple[str, ...] | None = None
    value: Any = None
    error: str = ""
    media: tuple[ContentPart, ...] | None = None
    call_summary: str | msgspec.UnsetType = msgspec.UNSET
