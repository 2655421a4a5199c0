"""Workspace tools, results and errors as MCP says them; values in, values out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mcp_types

from moorage.errors import ConfigError, EnvironmentDied, ExecutionError, OutcomeUnknown, Refused
from moorage.policy.permission import Effect
from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ToolSpec


def mcp_tools(specs: Iterable[ToolSpec] = WORKSPACE_TOOLS.values()) -> list[mcp_types.Tool]:
    """Return the tools as an MCP client lists them."""
    return [mcp_tool(spec) for spec in specs]


def mcp_tool(spec: ToolSpec) -> mcp_types.Tool:
    """Return one tool with its schema and with hints that hold in every permission mode.

    Only ``bash`` reaches what is outside the workspace, such as the network. A tool that may only
    add, never replace, is still called destructive when its specification says so.
    """
    is_read_only = spec.effect is Effect.READ
    schema = spec.input_schema()
    schema.pop("description", None)  # it repeats the name, and every model pays for its words
    return mcp_types.Tool(
        name=spec.name,
        title=spec.name.replace("_", " ").capitalize(),
        description=spec.description,
        input_schema=schema,
        annotations=mcp_types.ToolAnnotations(
            read_only_hint=is_read_only,
            destructive_hint=spec.is_destructive and not is_read_only,
            idempotent_hint=spec.is_idempotent,
            open_world_hint=spec.name == "bash",
        ),
    )


def call_result(result: ToolResult) -> mcp_types.CallToolResult:
    """Return a tool's result: the model's view as content, the producer's data beside it."""
    return mcp_types.CallToolResult(
        content=[content_block(part) for part in result.content],
        structured_content=result.structured_content,
        is_error=result.is_error,
    )


def error_result(error: ExecutionError) -> mcp_types.CallToolResult:
    """Return an error as a tool's result, so that the model can read it and act.

    What was known before the error, such as output until the environment died, comes first.
    """
    known = known_so_far(error)
    structured: dict[str, Any] = dict(known.structured_content or {})
    if isinstance(error, OutcomeUnknown | EnvironmentDied):
        structured["outcome"] = outcome_of(error)
    structured["error"] = error_facts(error)
    content = [content_block(part) for part in known.content]
    content.append(mcp_types.TextContent(text=str(error)))
    return mcp_types.CallToolResult(content=content, structured_content=structured, is_error=True)


def error_facts(error: ExecutionError) -> dict[str, str]:
    """Return the error for a program: a stable code, what happened, what to do."""
    facts = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, Refused):
        facts["reason"] = error.reason
    if isinstance(error, ConfigError) and error.path:
        facts["path"] = error.path
    return facts


def outcome_of(error: OutcomeUnknown | EnvironmentDied) -> str:
    """Return the outcome that a command's result would have stated."""
    return "environment_died" if isinstance(error, EnvironmentDied) else "unknown"


def known_so_far(error: ExecutionError) -> ToolResult:
    """Return the result that an error carries, or an empty one."""
    match getattr(error, "result", None):
        case ToolResult() as result:
            return result
        case dict() as envelope:
            return ToolResult(structured_content=envelope)
        case _:
            return ToolResult()


def without_structured(result: mcp_types.CallToolResult) -> mcp_types.CallToolResult:
    """Return the result with its content alone."""
    return result.model_copy(update={"structured_content": None})


def content_block(part: ContentPart) -> mcp_types.ContentBlock:
    """Return one part of a result as MCP content.

    A published file becomes a link; a kind that MCP does not have becomes its text.
    """
    match part.type:
        case "text":
            return mcp_types.TextContent(text=part.text)
        case "image":
            return mcp_types.ImageContent(data=part.data, mime_type=part.mime_type or "image/png")
        case "audio":
            return mcp_types.AudioContent(data=part.data, mime_type=part.mime_type or "audio/wav")
        case "file" | "resource" | "resource_link":
            return _link(part)


def _link(part: ContentPart) -> mcp_types.ContentBlock:
    if not part.uri:
        return mcp_types.TextContent(text=part.text or part.name)
    return mcp_types.ResourceLink(
        uri=part.uri,
        name=part.name or part.uri.rpartition("/")[2],
        description=part.text or None,
        mime_type=part.mime_type or None,
        size=part.artifact.size_bytes if part.artifact else None,
    )
