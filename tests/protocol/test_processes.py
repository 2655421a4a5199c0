"""Process messages carry exactly the keys and units of the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moorage.errors import WorkerFailure
from moorage.protocol.processes import (
    ZERO_TIME,
    CleanupReply,
    OutputSnapshot,
    ProcessEvent,
    ProcessRecord,
    ReadOptions,
    ReadRequest,
    StartRequest,
    check_start_reply,
)

RECORD = ProcessRecord(
    id="proc-1a2b3c4d",
    owner_kind="main_agent",
    owner_id="agent",
    lifecycle="session",
    status="running",
    pid=7,
    pgid=7,
    log_path="/state/log",
    command="sleep 5",
    cwd="/workspace",
    started_at="2026-01-01T00:00:00.000000001Z",
    updated_at="2026-01-01T00:00:00.000000001Z",
    root_thread_id="thr-1",
    exit_code=-1,
)

ALWAYS = {
    "id",
    "owner_kind",
    "owner_id",
    "lifecycle",
    "status",
    "pid",
    "pgid",
    "log_path",
    "command",
    "cwd",
    "started_at",
    "updated_at",
    "stopped_at",
    "completion_delivered_at",
    "next_recheck_at",
    "pending_recheck_at",
}


def wire(message: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(message))


def test_a_record_writes_unset_times_as_the_zero_time_and_leaves_out_what_is_empty() -> None:
    sent = wire(RECORD)
    assert set(sent) == ALWAYS | {"root_thread_id", "exit_code"}
    assert sent["stopped_at"] == sent["next_recheck_at"] == ZERO_TIME
    assert sent["started_at"].endswith("000000001Z")


def test_a_full_record_has_the_names_of_the_wire_and_a_receipt() -> None:
    words = {
        "lifecycle": "managed",
        "status": "failed",
        "owner_kind": "subagent",
        "completion_mode": "resume",
        "sandbox_mode": "read-only",
        "terminal_cause": "natural_exit",
    }
    values: dict[type, Any] = {str: "x", int: 1, bool: True, tuple[str, ...]: ("x",)}
    full = {
        each.name: words.get(each.name) or values[each.type]
        for each in msgspec.structs.fields(ProcessRecord)
    }
    optional = {
        "operation_id", "root_thread_id", "host_generation_id", "completion_mode",
        "process_start_time", "tty", "log_base_offset", "exit_code", "last_error", "sandbox_mode",
        "sandbox_denied", "sandbox_runner_failed", "sandbox_denial_signatures",
        "sandbox_runner_failure_signatures", "terminal_cause", "completion_consumed_by",
        "recheck_minutes", "action",
    }  # fmt: skip
    assert set(wire(ProcessRecord(**full))) == ALWAYS | optional | {"total_bytes", "log_sha256"}


def test_a_record_of_exit_code_zero_has_no_exit_code_key() -> None:
    done = msgspec.structs.replace(RECORD, exit_code=0, status="stopped")
    assert "exit_code" not in wire(done)
    assert msgspec.json.decode(msgspec.json.encode(done), type=ProcessRecord).exit_code == 0
    assert done.is_terminal
    assert not RECORD.is_terminal


def test_a_record_without_the_zero_times_is_still_read() -> None:
    sparse = {key: value for key, value in wire(RECORD).items() if not key.endswith("recheck_at")}
    assert msgspec.convert(sparse, ProcessRecord) == RECORD


@pytest.mark.parametrize("field", ["status", "lifecycle", "owner_kind", "terminal_cause"])
def test_a_word_that_is_not_in_the_vocabulary_is_not_read(field: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({**wire(RECORD), field: "whatever"}, ProcessRecord)


def test_read_options_have_the_capitals_and_all_four_keys() -> None:
    sent = wire(ReadRequest(id="proc-1", options=ReadOptions(wait_ns=2_000_000_000)))
    assert sent == {
        "id": "proc-1",
        "options": {"MaxBytes": 32768, "OffsetBytes": None, "Wait": 2000000000, "MinDwell": 0},
    }


def test_an_output_window_has_the_capitals_of_the_wire() -> None:
    window = OutputSnapshot(
        process=RECORD,
        output="x",
        truncated=False,
        start_offset=0,
        end_offset=1,
        total_bytes=1,
        timed_out=False,
        duration_ns=5,
    )
    assert set(wire(window)) == {
        "Process",
        "Output",
        "Truncated",
        "StartOffset",
        "EndOffset",
        "TotalBytes",
        "TimedOut",
        "Duration",
    }


def test_event_keys_are_exactly_type_cause_and_process() -> None:
    sent = wire(ProcessEvent(type="stopped", cause="natural_exit", process=RECORD))
    assert set(sent) == {"Type", "Cause", "Process"}
    assert (
        sent["Cause"]
        != wire(ProcessEvent(type="stopped", cause="requested_stop", process=RECORD))["Cause"]
    )


def test_a_cleanup_that_stopped_nothing_says_null() -> None:
    assert wire(CleanupReply()) == {"Cleaned": None}


def test_a_start_reply_must_carry_the_identity_that_was_asked_for() -> None:
    request = StartRequest(operation_id="op-1", command="sleep 5", actor="agent")
    check_start_reply(request, msgspec.structs.replace(RECORD, operation_id="op-1"))
    for answer in (RECORD, {"operation_id": "op-1"}):
        with pytest.raises(WorkerFailure, match="process/list"):
            check_start_reply(request, answer)
