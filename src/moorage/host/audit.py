"""What an auditor asks about a call, drawn from its result: risk, policy, sizes, references."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.errors import Refused
from moorage.policy.permission import Effect
from moorage.protocol.tool_calls import ToolResult
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS

_RISK = {Effect.READ: "low", Effect.WRITE: "medium", Effect.EXECUTE: "high"}


class Audit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account of one call, without its arguments and without its output.

    ``kind`` is what the tool may do; ``risk`` and ``classification_reason`` are those of the
    command where there is one. ``raw_bytes`` were produced and ``returned_bytes`` of text given to
    the model; ``is_budgeted`` says that something was cut, ``result_ref`` where the whole is.
    """

    kind: str = ""
    risk: str = ""
    classification_reason: str = ""
    is_read_only: bool = False
    policy_action: str = "allow"
    policy_reason: str = ""
    error_kind: str = ""
    result_action: str = ""
    workspace_revision: str = ""
    raw_bytes: int = 0
    returned_bytes: int = 0
    is_budgeted: bool = False
    result_ref: str = ""
    artifact_refs: tuple[str, ...] = ()


def audit_of(name: str, outcome: ToolResult | BaseException) -> Audit:
    """Return the account of a call to ``name`` that ended in ``outcome``."""
    spec = WORKSPACE_TOOLS.get(name)
    effect = spec.effect if spec is not None else None
    facts: dict[str, Any] = {
        "kind": effect.value if effect is not None else "",
        "risk": _RISK[effect] if effect is not None else "",
        "is_read_only": effect is Effect.READ,
    }
    if isinstance(outcome, Refused):
        facts |= {"policy_action": "deny", "policy_reason": outcome.reason}
    if isinstance(outcome, ToolResult):
        facts |= _of_result(outcome, outcome.structured_content or {})
    return Audit(**facts)


def _of_result(result: ToolResult, structured: dict[str, Any]) -> dict[str, Any]:
    returned = sum(len(part.text.encode("utf-8", "replace")) for part in result.content)
    produced = _count(structured, "stdout_bytes", returned) + _count(structured, "stderr_bytes")
    facts: dict[str, Any] = {
        "error_kind": _text(structured, "error_kind"),
        "result_action": _text(structured, "action"),
        "workspace_revision": _text(structured, "workspace_revision"),
        "returned_bytes": returned,
        "raw_bytes": produced,
        "is_budgeted": structured.get("truncated") is True,
        "result_ref": _text(structured, "full_log_ref"),
        "artifact_refs": tuple(
            part.artifact.ref for part in result.content if part.artifact is not None
        ),
    }
    classification = structured.get("classification")
    if isinstance(classification, dict):
        facts |= {
            "risk": _text(classification, "risk"),
            "classification_reason": _text(classification, "reason"),
            "is_read_only": classification.get("read_only") is True,
        }
    return facts


def _text(told: dict[str, Any], key: str) -> str:
    """Return a text that the worker told, empty when it is none."""
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _count(told: dict[str, Any], key: str, otherwise: int = 0) -> int:
    value = told.get(key)
    return value if isinstance(value, int) and value >= 0 else otherwise
