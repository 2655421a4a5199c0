"""Small builders of tool results, so that every tool words success and misfortune alike."""

from __future__ import annotations

from typing import Any

from moorage.protocol.tool_calls import ContentPart, ToolResult


def success(text: str, structured: dict[str, Any] | None = None) -> ToolResult:
    """Return a result whose view is ``text`` and whose data is ``structured``."""
    return ToolResult(content=(ContentPart(type="text", text=text),), structured_content=structured)


def failure(error_kind: str, sentence: str, **facts: Any) -> ToolResult:
    """Return an ordinary misfortune: one sentence for the model, its kind and facts as data."""
    return ToolResult(
        content=(ContentPart(type="text", text=sentence),),
        structured_content={"error_kind": error_kind, "message": sentence, **facts},
        is_error=True,
    )
