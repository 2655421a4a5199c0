from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

from moorage.errors import ConfigError, EnvironmentDied, Refused
from moorage.host import record
from moorage.host.record import CallLog, CallRecord, hash_of, read_calls, record_of
from moorage.protocol.tool_calls import ContentPart, ToolResult

FACTS = {"name": "bash", "call_id": "1", "actor": "s-1", "mode": "standard"}


def line(name: str = "bash", **facts: object) -> CallRecord:
    return CallRecord(started_at=datetime.now(UTC), duration_ms=1, **FACTS | {"name": name} | facts)


def test_calls_are_kept_in_order_and_private(tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    log = CallLog(file)
    written = [line(purpose="check"), line("grep", structured_content={"total": 3})]
    for one in written:
        log.append(one)
    assert list(read_calls(file)) == written
    log.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_torn_line_hides_no_other_call(tmp_path: Path) -> None:
    file = tmp_path / "record.ndjson"
    log = CallLog(file)
    log.append(line())
    log.close()
    with file.open("ab") as handle:
        handle.write(b'{"name":"ba')
    log = CallLog(file)
    log.check_writable()
    log.append(line("grep"))
    log.close()
    assert [one.name for one in read_calls(file)] == ["bash", "grep"]
    assert list(read_calls(tmp_path / "absent")) == []


def test_a_full_disk_hides_no_result_and_refuses_the_next_call_while_it_lasts(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    log = CallLog(tmp_path / "record.ndjson")
    full = os.open("/dev/full", os.O_RDWR)
    good, log._descriptor = log._descriptor, full
    log.append(line())
    assert "No space left on device" in caplog.text
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        log.check_writable()
    log._descriptor = good
    os.close(full)
    log.check_writable()
    log.append(line("grep"))
    log.close()
    assert [one.name for one in read_calls(tmp_path / "record.ndjson")] == ["grep"]


def test_a_record_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        CallLog(tmp_path)


def test_what_else_ends_a_call_is_told_apart_from_cancelling() -> None:
    now = datetime.now(UTC)
    assert record_of(now, KeyError("x"), **FACTS).error_code == "internal_error"
    cancelled = record_of(now, KeyboardInterrupt(), **FACTS)
    assert (cancelled.error_code, cancelled.structured_content) == ("", {"outcome": "cancelled"})


async def test_what_was_written_is_synced_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "SYNC_SECONDS", 0.001)
    synced = anyio.Event()
    monkeypatch.setattr(record.os, "fdatasync", lambda _: anyio.from_thread.run_sync(synced.set))
    log = CallLog(tmp_path / "record.ndjson")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log.keep_synced)
            log.append(line())
            log.append(line())
            await synced.wait()
            tasks.cancel_scope.cancel()
    log.close()


def test_a_result_keeps_its_envelope_and_its_text_only_when_that_says_more() -> None:
    now, part = datetime.now(UTC), ContentPart(type="text", text="seen")
    plain = record_of(now, ToolResult(content=(part,)), **FACTS)
    assert (plain.content, plain.structured_content) == ((part,), None)
    full = record_of(now, ToolResult(content=(part,), structured_content={"a": 1}), **FACTS)
    assert (full.content, full.structured_content) == ((), {"a": 1})
    bad = ToolResult(content=(part,), structured_content={"a": 1}, is_error=True)
    assert record_of(now, bad, **FACTS).content == (part,)


def test_an_error_keeps_its_code_its_sentence_and_the_result_so_far() -> None:
    now = datetime.now(UTC)
    refused = record_of(now, Refused("no.", hint="Ask."), **FACTS)
    assert (refused.is_error, refused.error_code, refused.error) == (True, "refused", "no. Ask.")
    died = record_of(now, EnvironmentDied("gone.", result={"stdout": "x"}), **FACTS)
    assert died.structured_content == {"stdout": "x"}


def test_arguments_stand_in_the_record_as_a_hash_only() -> None:
    assert hash_of(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
