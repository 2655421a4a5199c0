"""Conversations about process events: hints, numbered so that a gap shows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from moorage.protocol.machines.events import ProcessEventArrived
from moorage.protocol.machines.worker_side import WorkerWireLimits
from moorage.protocol.processes import ProcessEvent, ProcessRecord
from moorage.testing.playbook import Playbook

Scene = Callable[..., Playbook]

RECORD = ProcessRecord(
    id="proc-1",
    owner_kind="subagent",
    owner_id="agent",
    lifecycle="session",
    status="running",
    pid=1,
    pgid=1,
    log_path="/l",
    command="sleep 5",
    cwd="/w",
    started_at="2026-01-01T00:00:00Z",
    updated_at="2026-01-01T00:00:00Z",
)
STARTED = ProcessEvent(type="started", process=RECORD)


def test_an_event_has_an_empty_id_and_exactly_its_three_keys(book: Playbook) -> None:
    book.open()
    book.publish(STARTED)
    sent = book.said("worker")[-1]
    assert (sent["id"], sent["method"]) == ("", "process")
    assert set(sent["data"]) == {"Type", "Cause", "Process"}
    assert book.at_host() == [ProcessEventArrived(STARTED, is_gap=False)]


def test_an_event_may_come_before_the_reply_of_the_request_that_caused_it(book: Playbook) -> None:
    book.open()
    request_id = book.ask("process/list")
    book.publish(STARTED)
    book.reply(request_id, (RECORD,))
    assert [type(event).__name__ for event in book.at_host()] == [
        "ProcessEventArrived",
        "ReplyArrived",
    ]


def test_no_event_is_sent_before_the_initialization_and_the_host_sees_the_gap(
    book: Playbook,
) -> None:
    assert book.worker.process_event(STARTED) == b""
    book.open()
    book.publish(STARTED)
    book.publish(STARTED)
    assert [event.is_gap for event in book.at_host()] == [True, False]  # type: ignore[union-attr]


def test_an_event_that_is_too_large_leaves_a_gap(scene: Scene) -> None:
    book = scene(worker_limits=WorkerWireLimits(max_frame_bytes=1000))
    book.open()
    huge = msgspec.structs.replace(RECORD, command="x" * 1000)
    for record in (RECORD, huge, RECORD):
        book.publish(ProcessEvent(type="started", process=record))
    assert [event.is_gap for event in book.at_host()] == [False, True]  # type: ignore[union-attr]


def test_a_worker_that_does_not_number_its_events_shows_no_gap(book: Playbook) -> None:
    book.open()
    data = msgspec.json.encode(STARTED)
    for _ in range(2):
        book.worker_says(b'{"id":"","method":"process","data":' + data + b"}\n")
    assert book.at_host() == [ProcessEventArrived(STARTED, is_gap=False)] * 2


@pytest.mark.parametrize("data", [b"null", b"{}", b'{"Type":"exploded","Process":{}}'])
def test_an_event_that_cannot_be_read_is_dropped_and_leaves_a_gap(
    book: Playbook, data: bytes
) -> None:
    book.open()
    book.worker_says(b'{"id":"","method":"process","sequence":1,"data":' + data + b"}\n")
    assert book.at_host() == []
    good = msgspec.json.encode(STARTED)
    book.worker_says(b'{"id":"","method":"process","sequence":2,"data":' + good + b"}\n")
    assert book.at_host() == [ProcessEventArrived(STARTED, is_gap=True)]
