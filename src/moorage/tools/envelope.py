"""The whole account of one command, as clients and records keep it. Pure."""

from __future__ import annotations

import binascii
from typing import Any

import msgspec

from moorage.process.capture import StreamCapture
from moorage.process.foreground import ForegroundResult
from moorage.tools.classify import Classification
from moorage.tools.views import Combined, ViewLimits


class CommandText(msgspec.Struct, frozen=True):
    """The command as it was asked for and, when that was changed, as it ran; both masked."""

    requested: str
    resolved: str = ""

    @property
    def shown(self) -> str:
        """Return the command that ran."""
        return self.resolved or self.requested


class Facts(msgspec.Struct, frozen=True):
    """What is known of a run beside its result."""

    command: CommandText
    classification: Classification
    revision: str = ""
    sandbox: dict[str, Any] | None = None
    verification: dict[str, Any] | None = None


def build(
    result: ForegroundResult, combined: Combined, facts: Facts, limits: ViewLimits
) -> dict[str, Any]:
    """Return the envelope of a finished run."""
    envelope: dict[str, Any] = {"action": "run", "command": facts.command.shown}
    if facts.command.resolved:
        envelope["requested_command"] = facts.command.requested
        envelope["resolved_command"] = facts.command.resolved
    envelope |= {
        "classification": msgspec.structs.asdict(facts.classification),
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "duration_ms": result.duration_ms,
        "timed_out": result.timed_out,
        "left_running": result.left_running,
        "truncated": combined.is_cut,
        "output": combined.join().decode("utf-8", "replace"),
        **_stream("stdout", result.stdout, limits),
        **_stream("stderr", result.stderr, limits),
        "workspace_revision": facts.revision,
    }
    if result.promoted_process_id:
        envelope["promoted_process_id"] = result.promoted_process_id
    if result.signal is not None:
        envelope["signal"] = result.signal
    if facts.sandbox is not None:
        envelope["sandbox"] = facts.sandbox
    if facts.verification is not None:
        envelope["verification"] = facts.verification
    envelope |= _log(result)
    return envelope


def _stream(name: str, stream: StreamCapture, limits: ViewLimits) -> dict[str, Any]:
    kept = stream.kept()
    data = kept.join()
    text = data.decode("utf-8", "replace") if data else ""
    shown, is_shown_cut = text, False
    if len(data) > limits.excerpt_head_bytes + limits.excerpt_tail_bytes:
        part = stream.excerpt(
            head_bytes=limits.excerpt_head_bytes, tail_bytes=limits.excerpt_tail_bytes
        )
        shown, is_shown_cut = part.join().decode("utf-8", "replace"), bool(part.omitted_bytes)
    fields: dict[str, Any] = {
        name: text,
        f"{name}_bytes": stream.total_bytes,
        f"{name}_truncated": kept.omitted_bytes > 0,
        f"{name}_tail": shown,
        f"{name}_tail_truncated": is_shown_cut,
    }
    # Decoding is lossless unless it put replacement characters in.
    if "\ufffd" in text and text.encode() != data:
        fields[f"{name}_base64"] = binascii.b2a_base64(data, newline=False).decode()
    return fields


def _log(result: ForegroundResult) -> dict[str, Any]:
    if result.log.error:
        return {"full_log_error": result.log.error}
    saved = result.saved_log
    if saved is None:
        return {}
    fields: dict[str, Any] = {
        "full_log_ref": saved.path,
        "full_log_bytes": saved.size,
        "full_log_sha256": saved.sha256,
        "full_log_sections": saved.sections,
    }
    if saved.omitted_bytes:
        fields["full_log_omitted_bytes"] = saved.omitted_bytes
    return fields
