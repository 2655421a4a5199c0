from __future__ import annotations

from moorage.errors import ConnectionLost, Refused
from moorage.host.audit import Audit, audit_of
from moorage.protocol.tool_calls import ArtifactPart, ContentPart, ToolResult


def test_a_command_is_accounted_for_by_its_envelope() -> None:
    result = ToolResult(
        content=(ContentPart(type="text", text="äb"),),
        structured_content={
            "action": "run",
            "classification": {"risk": "low", "reason": "only reads", "read_only": True},
            "stdout_bytes": 5000,
            "stderr_bytes": 7,
            "truncated": True,
            "full_log_ref": "/logs/a.log",
            "workspace_revision": "git:1",
        },
    )
    assert audit_of("bash", result) == Audit(
        kind="execute",
        risk="low",
        classification_reason="only reads",
        is_read_only=True,
        result_action="run",
        workspace_revision="git:1",
        raw_bytes=5007,
        returned_bytes=3,
        is_budgeted=True,
        result_ref="/logs/a.log",
    )


def test_a_refusal_keeps_its_reason() -> None:
    audit = audit_of("write_file", Refused("no.", reason="boundary_denied"))
    assert (audit.policy_action, audit.policy_reason) == ("deny", "boundary_denied")
    assert (audit.kind, audit.risk, audit.is_read_only) == ("write", "medium", False)


def test_what_is_no_tool_and_what_never_returned_have_an_account_too() -> None:
    assert audit_of("apply_patch", ConnectionLost("gone.")) == Audit()
    part = ContentPart(
        type="resource_link", artifact=ArtifactPart(ref="/a/b", sha256="0" * 64, size_bytes=1)
    )
    published = audit_of("present_artifact", ToolResult(content=(part,)))
    assert published.artifact_refs == ("/a/b",)
    failed = ToolResult(structured_content={"error_kind": "not_found"}, is_error=True)
    assert audit_of("read_file", failed).error_kind == "not_found"
