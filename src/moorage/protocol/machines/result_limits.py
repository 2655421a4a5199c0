"""How large a tool result may be, checked before it is sent."""

from __future__ import annotations

import msgspec

from moorage.errors import LocalProtocolViolation
from moorage.protocol.machines.codec import encode_data
from moorage.protocol.tool_calls import ContentPart, ToolResult

MIB = 1024 * 1024

_MAX_BYTES_A_CHARACTER = 4


class ResultLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one tool result and of each of its parts."""

    max_parts: int = 128
    max_result_bytes: int = 3 * MIB
    max_text_bytes: int = MIB
    max_data_bytes: int = 2 * MIB
    max_json_bytes: int = MIB
    max_uri_bytes: int = 8 * 1024
    max_name_bytes: int = 1024
    max_mime_type_bytes: int = 256
    max_ref_bytes: int = 512


def encode_result(result: ToolResult, limits: ResultLimits) -> bytes:
    """Return the encoded result.

    Raises:
        LocalProtocolViolation: the result breaks a limit or a part lacks what its type needs; the
            text names which.
    """
    if len(result.content) > limits.max_parts:
        raise _broken("content", len(result.content), limits.max_parts, "parts")
    for index, part in enumerate(result.content):
        if not _is_short_text(part, limits):
            _check_part(f"content[{index}]", part, limits)
    if result.activity is not None and not (result.activity.id and result.activity.kind):
        raise LocalProtocolViolation("the tool result's activity needs an id and a kind.")
    data = encode_data(result)
    if len(data) > limits.max_result_bytes:
        raise _broken("whole", len(data), limits.max_result_bytes)
    # A whole that is no larger than each field may be needs no look at the fields.
    if len(data) > limits.max_json_bytes:
        _check_json("structured_content", result.structured_content, limits)
        _check_json("meta", result.meta, limits)
    return data


def _is_short_text(part: ContentPart, limits: ResultLimits) -> bool:
    """Return whether a part is what most are: text, and little of it; it needs no closer look."""
    is_bare = part.type == "text" and not (
        part.data or part.mime_type or part.uri or part.name or part.resource or part.artifact
    )
    return is_bare and len(part.text) * _MAX_BYTES_A_CHARACTER <= limits.max_text_bytes


def _check_part(where: str, part: ContentPart, limits: ResultLimits) -> None:
    sizes = (
        ("text", len(part.text.encode("utf-8", "replace")), limits.max_text_bytes),
        ("data", _decoded_size(part.data), limits.max_data_bytes),
        ("mime_type", len(part.mime_type.encode("utf-8", "replace")), limits.max_mime_type_bytes),
        ("uri", len(part.uri.encode("utf-8", "replace")), limits.max_uri_bytes),
        ("name", len(part.name.encode("utf-8", "replace")), limits.max_name_bytes),
        ("artifact.ref", len(part.artifact.ref) if part.artifact else 0, limits.max_ref_bytes),
    )
    for name, size, most in sizes:
        if size > most:
            raise _broken(f"{where}.{name}", size, most)
    if part.resource is not None:
        _check_json(f"{where}.resource", part.resource, limits)
    needs_source = part.type in {"image", "audio", "file"}
    if needs_source and not (part.mime_type and (part.data or part.uri)):
        raise LocalProtocolViolation(
            f"the tool result's {where} is of type {part.type}, which needs a mime_type "
            "and data or uri."
        )


def _decoded_size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _check_json(name: str, value: object, limits: ResultLimits) -> None:
    size = len(encode_data(value))
    if size > limits.max_json_bytes:
        raise _broken(name, size, limits.max_json_bytes)


def _broken(what: str, size: int, most: int, unit: str = "bytes") -> LocalProtocolViolation:
    return LocalProtocolViolation(
        f"the tool result's {what} has {size} {unit}; the most is {most}.",
        hint="Cut it, and name where the rest is.",
    )
