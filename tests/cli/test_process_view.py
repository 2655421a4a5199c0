from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.cli.process_view import as_document, exit_code_for_caller, how_it_ended, row
from moorage.protocol.processes import ProcessRecord


def record(**fields: Any) -> ProcessRecord:
    begun = (datetime.now(UTC) - timedelta(hours=2, minutes=5)).isoformat()
    return ProcessRecord(
        **{
            "id": "proc-1",
            "owner_kind": "main_agent",
            "owner_id": "s-1",
            "lifecycle": "session",
            "status": "running",
            "pid": 77,
            "pgid": 77,
            "log_path": "/log",
            "command": "make\nwatch",
            "cwd": "/project",
            "started_at": begun,
            "updated_at": begun,
            **fields,
        }
    )


ENDED = {"status": "failed", "terminal_cause": "natural_exit", "exit_code": 3}


@pytest.mark.parametrize(
    ("fields", "cells"),
    [
        ({}, ("running", "2 h", "77", "no", "-")),
        ({"tty": True, **ENDED}, ("failed", "2 h", "-", "yes", "3")),
        ({**ENDED, "exit_code": -1}, ("failed", "2 h", "-", "no", "?")),
        ({"started_at": "soon"}, ("running", "0 s", "77", "no", "-")),
    ],
)
def test_a_row_says_how_a_process_fares(fields: dict[str, Any], cells: tuple[str, ...]) -> None:
    assert row(record(**fields), "site") == ("site", "proc-1", *cells, "make\nwatch")


@pytest.mark.parametrize(
    ("fields", "sentence", "code"),
    [
        (ENDED, "proc-1 (make watch) ended with exit code 3.", 3),
        (
            {**ENDED, "terminal_cause": "requested_stop", "exit_code": 143},
            "proc-1 (make watch) was stopped with exit code 143, by signal 15.",
            143,
        ),
        (
            {**ENDED, "exit_code": -1, "last_error": "Its worker was lost."},
            "proc-1 (make watch) ended; how is unknown. Its worker was lost.",
            125,
        ),
        ({**ENDED, "exit_code": -1}, "proc-1 (make watch) ended; how is unknown.", 125),
    ],
)
def test_an_end_is_one_sentence_and_an_exit_code(
    fields: dict[str, Any], sentence: str, code: int
) -> None:
    ended = record(**fields)
    assert (how_it_ended(ended), exit_code_for_caller(ended)) == (sentence, code)


def test_what_still_runs_is_said_to() -> None:
    assert how_it_ended(record()) == "proc-1 (make watch) is running."


def test_the_keys_of_a_document_are_the_same_in_every_state() -> None:
    running, ended = as_document(record(), "s-1"), as_document(record(**ENDED), "s-1", "site")
    assert list(running) == list(ended)
    assert (running["pid"], running["exit_code"], running["stopped_at"]) == (77, None, None)
    assert (ended["pid"], ended["exit_code"], ended["session_name"]) == (None, 3, "site")
