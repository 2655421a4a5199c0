from __future__ import annotations

from typing import Any

import pytest

from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process.capture import CaptureLimits, StreamCapture
from moorage.process.foreground import ForegroundResult
from moorage.process.full_log import FullLog, LogLimits, SavedLog
from moorage.tools.classify import classify
from moorage.tools.denials import guidance, sandbox_account, was_denied
from moorage.tools.envelope import CommandText, Facts, build
from moorage.tools.notes import notes_on
from moorage.tools.views import Combined, ViewLimits
from moorage.workspace.redact import Redactor

PLAN = Plan(PermissionMode.STANDARD, ("/w",), ("/h",))


def is_denied(result: ForegroundResult) -> bool:
    return was_denied(PLAN, "/w", result)


def captured(data: bytes) -> StreamCapture:
    spilt: list[bytes] = []
    stream = StreamCapture(Redactor(), CaptureLimits(), spilt.append)
    stream.feed(data)
    stream.finish()
    return stream


def ended(outcome: Any = "exited", exit_code: int = 0, **changes: Any) -> ForegroundResult:
    fields: dict[str, Any] = {
        "outcome": outcome,
        "exit_code": exit_code,
        "signal": None,
        "duration_ms": 1500,
        "stdout": captured(b""),
        "stderr": captured(b""),
        "left_running": 0,
        "log": FullLog("/nowhere", lambda: "x", lambda: b"", LogLimits()),
    }
    return ForegroundResult(**fields | changes)


def facts(**changes: Any) -> Facts:
    return Facts(**{"command": CommandText("ls"), "classification": classify("ls")} | changes)


def lines(result: ForegroundResult, *, is_incomplete: bool = False, **changes: Any) -> list[str]:
    return notes_on(result, facts(**changes), is_incomplete=is_incomplete)


def test_a_success_needs_no_word() -> None:
    assert lines(ended()) == []


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (ended(exit_code=3), "Exit code 3"),
        (ended("signalled", 137, signal=9), "Exit code 137 (SIGKILL)"),
        (
            ended("timed_out", -1),
            "Timed out after 1.5 s; the command and everything it started were ended.",
        ),
        (
            ended("timed_out", -1, left_running=2),
            "Timed out after 1.5 s; the command was ended, but 2 processes do not end.",
        ),
        (ended("unknown", -1), "How the command ended is not known; it may have finished."),
    ],
)
def test_every_other_end_is_told_in_one_line(result: ForegroundResult, line: str) -> None:
    assert lines(result) == [line]


def test_the_order_of_the_lines_is_fixed() -> None:
    result = ended(exit_code=1, stderr=captured(b"Permission denied"))
    result.saved_log = SavedLog(path="/log", size=10, sha256="", sections={}, omitted_bytes=5)
    found = lines(
        result,
        is_incomplete=True,
        command=CommandText("npx jest", "./node_modules/.bin/jest"),
        sandbox=sandbox_account(PLAN, "/w", result),
        verification={
            "passed": False,
            "failure_summary": {"failing_tests": ["t"], "locations": [], "indicators": []},
        },
    )
    assert found == [
        "Ran: ./node_modules/.bin/jest",
        "Full log: /log (10 bytes, without 5 bytes beyond the largest log)",
        "Exit code 1",
        guidance(PermissionMode.STANDARD),
        "Failure summary:\nFailing: t",
    ]


def test_a_log_that_is_missing_is_told_with_its_reason() -> None:
    result = ended()
    result.log.error = "the disk is full"
    assert lines(result, is_incomplete=True) == ["Full log unavailable: the disk is full"]


def test_a_denial_is_told_by_what_a_failing_command_says() -> None:
    assert is_denied(ended(exit_code=1, stdout=captured(b"x: Read-only file system\n")))
    assert is_denied(ended(exit_code=1, stderr=captured(b"Operation not permitted")))
    assert not is_denied(ended(exit_code=0, stderr=captured(b"Permission denied")))
    assert not is_denied(ended(exit_code=1, stderr=captured(b"No such file")))
    free = PLAN._replace(mode=PermissionMode.UNCONFINED)
    assert sandbox_account(free, "/w", ended()) is None


def test_the_guidance_fits_the_mode() -> None:
    assert "writable_roots" in guidance(PermissionMode.STANDARD)
    assert "read_only" in guidance(PermissionMode.READ_ONLY)


def test_the_envelope_keeps_what_is_known_of_the_log() -> None:
    result = ended("signalled", 137, signal=9)
    result.saved_log = SavedLog(
        path="/log", size=10, sha256="ab", sections={"stdout_start": 1}, omitted_bytes=5
    )
    envelope = build(
        result,
        Combined(b"", b"", is_cut=True),
        facts(command=CommandText("a", "b"), revision="r", verification={"kind": "verification"}),
        ViewLimits(),
    )
    assert envelope["full_log_ref"] == "/log"
    assert envelope["full_log_sha256"] == "ab"
    assert envelope["full_log_omitted_bytes"] == 5
    assert (envelope["signal"], envelope["truncated"]) == (9, True)
    assert (envelope["command"], envelope["requested_command"]) == ("b", "a")
    assert envelope["workspace_revision"] == "r"
    assert "sandbox" not in envelope
