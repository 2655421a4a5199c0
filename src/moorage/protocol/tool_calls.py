"""Tool call, tool result and content parts, with the wire's own names."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Actor = Annotated[str, Meta(min_length=1)]
"""Who acts inside a session; never nobody."""

ModeText = Annotated[str, Meta(pattern=r"^(|standard|read_only|unconfined)\Z")]
"""A permission mode as the wire carries it; empty means ``standard``, nothing else is taken."""

PartType = Literal["text", "image", "audio", "file", "resource", "resource_link"]


class ArtifactPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the published copy of a file stands."""

    placement: Literal["", "inline", "turn_end"] = ""
    ref: str = ""
    sha256: str = ""
    size_bytes: int = 0


class ContentPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of what the model reads."""

    type: PartType
    text: str = ""
    data: str = ""
    mime_type: str = ""
    uri: str = ""
    name: str = ""
    resource: Any = None
    remote_ref: str = ""
    artifact: ArtifactPart | None = None


class Activity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A long-lived thing that a tool result points at."""

    id: str
    kind: str
    state: str = ""
    thread_id: str = ""
    preview_uri: str = ""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a tool: what the model reads, and the producer's data."""

    content: tuple[ContentPart, ...] = ()
    structured_content: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    is_error: bool = False
    activity: Activity | None = None

    @property
    def text(self) -> str:
        """Return the text parts, one below the other."""
        return "\n".join(part.text for part in self.content if part.type == "text")


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of one tool; ``arguments`` is text that holds encoded JSON."""

    name: str
    arguments: str = "{}"
    id: str = ""
    kind: str = ""
    display: dict[str, Any] | None = None
    provider_item_id: str = ""
    provider_item_provider: str = ""
    provider_item_model: str = ""


class ExecuteRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Run one workspace tool.

    ``input`` names bytes uploaded before with ``input/write``, for the standard input of a command
    (capability ``moorage.bytes.v1``).
    """

    call: ToolCall
    actor: Actor
    permission_mode: ModeText = ""
    git_attribution_enabled: bool = False
    input: str = ""
