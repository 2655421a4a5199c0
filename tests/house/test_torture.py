"""The torture of background processes must be able to fail: each proof is given a planted fault."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocol.processes import ProcessRecord
from torture import commands, proofs, report, table
from torture.content import Content
from torture.proofs import Deliveries, KeptLog
from torture.strangers import Stranger, strangers
from torture.subjects import Chronicle, Subject

TOKEN = f"torture-of-a-test-{os.getpid()}"
LINES = 50
CONTENT = Content("p00001")
WHOLE = CONTENT.between(0, CONTENT.size(LINES))
DELIVERED = {"completion_consumed_by": "consumer-1"}


def subject(**changed: Any) -> Subject:
    facts = {"kind": "printer", "lifecycle": "session", "most_lines": LINES, "least_lines": LINES}
    return Subject(**{"tag": "p00001", "place": "plain", "content": CONTENT, **facts, **changed})


def ended(**changed: Any) -> ProcessRecord:
    facts: dict[str, Any] = {
        **dict.fromkeys(("log_path", "cwd", "command", "started_at", "updated_at"), ""),
        "id": "proc-00000001",
        "owner_kind": "main_agent",
        "owner_id": "main",
        "pid": 2,
        "pgid": 2,
        "lifecycle": "session",
        "status": "stopped",
        "terminal_cause": "natural_exit",
        "completion_mode": "resume",
        "total_bytes": len(WHOLE),
        "log_sha256": sha256(WHOLE).hexdigest(),
    }
    return ProcessRecord(**{**facts, **changed})


def log_of(kept: bytes, **changed: Any) -> KeptLog:
    """Return a log whose receipt fits what is kept."""
    receipt = {"total_bytes": len(kept), "log_sha256": sha256(kept).hexdigest()}
    return KeptLog(ended(**{**receipt, **changed}), kept, kept)


# No orphan.


@pytest.fixture(params=["in its environment", "in its arguments"])
def orphan(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    argv, variables = ["bash", "-c", "echo; read"], {**os.environ, commands.VARIABLE: TOKEN}
    if request.param == "in its arguments":
        argv, variables = [*argv, TOKEN], dict(os.environ)
    with subprocess.Popen(
        argv, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_an_orphan_is_found(orphan: subprocess.Popen[bytes]) -> None:
    (finding,) = proofs.orphans(table.marked(TOKEN))
    assert str(orphan.pid) in finding
    assert "bash" in finding


def test_an_orphan_that_was_found_is_ended(orphan: subprocess.Popen[bytes]) -> None:
    table.end(table.marked(TOKEN))
    assert orphan.wait() == -signal.SIGKILL


def test_a_process_that_only_has_the_pid_of_an_orphan_is_left_alone(
    orphan: subprocess.Popen[bytes],
) -> None:
    (seen,) = table.marked(TOKEN)
    table.end([dataclasses.replace(seen, started=seen.started - 1)])
    assert orphan.communicate(b"\n")[0] == b""
    assert orphan.returncode == 0


def test_one_that_has_ended_is_no_orphan(orphan: subprocess.Popen[bytes]) -> None:
    orphan.kill()
    os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
    assert proofs.orphans(table.marked(TOKEN)) == []


# No lost byte.


def test_a_whole_log_is_in_order() -> None:
    assert proofs.lost_bytes(subject(), log_of(WHOLE), 0) == []


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (log_of(WHOLE[:-1]), "799 bytes were logged instead of 800 to 800"),
        (log_of(WHOLE[:96] + WHOLE[97:]), "at byte 96 stands"),
        (log_of(WHOLE + CONTENT.line(LINES + 1)), "816 bytes were logged"),
        (log_of(WHOLE[:96] + WHOLE[95:96] + WHOLE[97:]), "at byte 96 stands"),
        (KeptLog(ended(), WHOLE[:-1], WHOLE[:-1]), "the file has 799 bytes instead of 800"),
        (KeptLog(ended(log_sha256="0" * 64), WHOLE, WHOLE), "another hash than its receipt"),
        (KeptLog(ended(), WHOLE, WHOLE[:-1]), "reads by offset gave 799 bytes"),
        (log_of(WHOLE[1:], log_base_offset=1, total_bytes=800), "the first 1 are gone"),
    ],
)
def test_a_lost_byte_is_found(log: KeptLog, told: str) -> None:
    findings = proofs.lost_bytes(subject(), log, 0)
    assert any(told in finding for finding in findings), findings


def test_what_was_stopped_may_lack_its_end_but_nothing_before() -> None:
    cause = {"terminal_cause": "requested_stop", "exit_code": 143}
    assert proofs.lost_bytes(subject(), log_of(WHOLE[:100], **cause), 0) == []
    gap = log_of(WHOLE[:40] + WHOLE[41:100], **cause)
    (finding,) = proofs.lost_bytes(subject(), gap, 0)
    assert "stands" in finding


def test_of_a_long_log_exactly_the_promised_tail_must_be_kept() -> None:
    lines = proofs.KEPT_LOG_BYTES // CONTENT.width + 1
    total = CONTENT.size(lines)
    base = total - proofs.KEPT_LOG_BYTES
    long = subject(most_lines=lines, least_lines=lines)
    tail = CONTENT.between(base, total)
    kept = log_of(tail, total_bytes=total, log_base_offset=base)
    assert proofs.lost_bytes(long, kept, 0) == []
    cut = log_of(tail[1:], total_bytes=total, log_base_offset=base + 1)
    assert any("are gone" in finding for finding in proofs.lost_bytes(long, cut, 0))


LOST = {"exit_code": -1, "status": "failed"}


@pytest.mark.parametrize(
    ("started", "record", "crashes", "owed"),
    [
        (subject(), ended(), 0, (LINES, LINES)),
        (subject(least_lines=3), ended(), 0, (3, LINES)),
        (subject(), ended(**LOST), 1, (0, LINES)),
        (subject(lifecycle="managed"), ended(**LOST), 1, (0, LINES)),
        (subject(lifecycle="managed", is_confirmed=True), ended(**LOST), 1, (LINES, LINES)),
    ],
)
def test_what_is_owed_depends_on_how_a_process_ended(
    started: Subject, record: ProcessRecord, crashes: int, owed: tuple[int, int]
) -> None:
    assert proofs.owed_lines(started, record, crashes) == owed


@pytest.mark.parametrize(
    ("started", "record", "crashes", "told"),
    [
        (subject(), ended(**LOST), 0, "nobody saw its end"),
        (subject(crashes_before=2), ended(**LOST), 2, "nobody saw its end"),
        (subject(), ended(exit_code=137), 0, "nobody asked for that"),
        (
            subject(kind="tree", lifecycle="managed", is_confirmed=True),
            ended(**LOST),
            1,
            "did not outlive its worker",
        ),
    ],
)
def test_an_end_without_a_cause_is_found(
    started: Subject, record: ProcessRecord, crashes: int, told: str
) -> None:
    (finding,) = proofs.lost_bytes(started, KeptLog(record, WHOLE, WHOLE), crashes)
    assert told in finding


# No completion twice or lost.


def test_a_completion_told_once_is_in_order() -> None:
    told = Deliveries([("proc-00000001", "consumer-1")])
    assert proofs.misdelivered([ended(**DELIVERED)], told) == []


def test_a_completion_whose_answer_went_away_with_the_worker_is_in_order() -> None:
    asked = Deliveries(unanswered={("proc-00000001", "consumer-1")})
    assert proofs.misdelivered([ended(**DELIVERED)], asked) == []


@pytest.mark.parametrize(
    ("record", "told", "finding"),
    [
        (ended(**DELIVERED), ["consumer-1", "consumer-2"], "delivered 2 times"),
        (ended(**DELIVERED), ["consumer-1", "consumer-1"], "delivered 2 times"),
        (ended(**DELIVERED), [], "lost; its record names consumer-1"),
        (ended(), [], "lost; its record names nobody"),
        (ended(**DELIVERED), ["consumer-2"], "its record names consumer-1"),
        (ended(completion_mode="detached"), ["consumer-1"], "no completion"),
        (ended(terminal_cause="requested_stop"), ["consumer-1"], "no completion"),
    ],
)
def test_a_completion_twice_or_lost_is_found(
    record: ProcessRecord, told: list[str], finding: str
) -> None:
    deliveries = Deliveries([(record.id, consumer) for consumer in told])
    (found,) = proofs.misdelivered([record], deliveries)
    assert finding in found


# No signal to a stranger.


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with strangers(tmp_path, tmp_path, count=1) as (only,):
        yield only


def test_a_stranger_that_was_left_alone_is_in_order(stranger: Stranger) -> None:
    assert proofs.signalled([stranger]) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGCONT, signal.SIGWINCH])
def test_a_signal_to_a_stranger_is_found(stranger: Stranger, number: signal.Signals) -> None:
    os.kill(stranger.first_seen.pid, number)
    while not (findings := proofs.signalled([stranger])):
        os.sched_yield()
    pid = stranger.first_seen.pid
    assert findings == [f"stranger {pid} got signal {number} from process {os.getpid()}"]


@pytest.mark.parametrize(
    ("number", "awaited"), [(signal.SIGKILL, os.WEXITED), (signal.SIGSTOP, os.WSTOPPED)]
)
def test_a_stranger_that_was_killed_or_halted_is_found(
    stranger: Stranger, number: signal.Signals, awaited: int
) -> None:
    os.kill(stranger.first_seen.pid, number)
    os.waitid(os.P_PID, stranger.first_seen.pid, awaited | os.WNOWAIT)
    (finding,) = proofs.signalled([stranger])
    assert "does not live on" in finding


# The records.


def test_records_that_differ_lack_or_go_on_are_found() -> None:
    record = ended()
    assert proofs.inconsistent({record.id: record}, {record.id: record}) == []
    assert proofs.inconsistent({record.id: record}, {}) != []
    assert proofs.inconsistent({}, {record.id: record}) != []
    other = msgspec.structs.replace(record, total_bytes=1)
    assert proofs.inconsistent({record.id: record}, {record.id: other}) != []
    running = ended(status="running", terminal_cause="")
    assert proofs.inconsistent({running.id: running}, {running.id: running}) != []


# What the proofs stand on.


@given(st.integers(0, 2_000), st.integers(0, 2_000), st.booleans())
def test_content_between_two_offsets_is_a_slice_of_the_whole(
    start: int, end: int, is_terminal: bool
) -> None:
    content = Content("p00001", is_terminal)
    whole = b"".join(content.line(number) for number in range(1, 200))
    assert content.between(start, end) == whole[start:end]


@pytest.mark.parametrize("seed", range(3))
def test_a_printer_prints_its_content(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - to be had again, not secret
    command = commands.printer(rng, CONTENT.tag, TOKEN, LINES)
    command = command.replace("setsid sleep 900 &", "").replace("sleep 0.", "true 0.")
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE) as child:
        assert child.communicate()[0] == WHOLE


def test_an_echo_repeats_its_content_until_the_last_word() -> None:
    command = commands.echo(CONTENT.tag, TOKEN, is_terminal=False)
    typed = CONTENT.typed(2, LINES - 1) + f"{commands.LAST_WORD}\nmore\n"
    with subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.communicate(typed.encode())[0] == WHOLE


def test_a_record_is_found_by_its_tag_where_the_start_was_not_answered() -> None:
    chronicle = Chronicle()
    chronicle.subjects += [subject(tag="p00000", id="proc-0000000a"), subject()]
    command = commands.tree("p00001", TOKEN)
    assert chronicle.find(ended(command=command)) is chronicle.subjects[1]
    assert chronicle.find(ended(command="sleep 1")) is None


def test_the_report_shows_the_evidence_of_a_failed_proof() -> None:
    findings = [f"process {number} is left" for number in range(report.MOST_FINDINGS + 2)]
    text = report.verdicts(
        [report.Verdict("no orphan", "", findings), report.Verdict("no lost byte", "", [])]
    )
    assert "FAILED, 12 findings" in text
    assert "process 9 is left" in text
    assert "and 2 more" in text
    assert "proven" in text
