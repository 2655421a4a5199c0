"""Errors to wire texts and back, by a closed table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage import errors
from moorage.errors import ExecutionError
from moorage.protocol.failures import MAX_FAILURE_CHARACTERS, from_wire, to_wire


@pytest.mark.parametrize(
    "cls",
    [
        errors.ConfigError,
        errors.RetainedStateMissing,
        errors.BackendUnavailable,
        errors.ProtocolMismatch,
        errors.OutcomeUnknown,
        errors.EnvironmentDied,
        errors.ShutdownIncomplete,
        errors.ConfinementUnavailable,
        errors.InvalidArguments,
        errors.UnknownTool,
        errors.RequestCancelled,
        errors.WorkerFailure,
        errors.ToolFailed,
    ],
)
def test_an_error_comes_back_as_its_own_class(cls: type[ExecutionError]) -> None:
    back = from_wire(to_wire(cls("it broke.", hint="Mend it.")))
    assert type(back) is cls
    assert str(back) == "it broke. Mend it."


def test_a_refusal_keeps_its_reason() -> None:
    wire = to_wire(errors.Refused("outside the workspace.", reason="boundary_denied"))
    assert wire == "refused/boundary_denied: outside the workspace."
    back = from_wire(wire)
    assert isinstance(back, errors.Refused)
    assert back.reason == "boundary_denied"


def test_a_refusal_without_a_usable_reason_is_one_of_policy() -> None:
    back = from_wire(to_wire(errors.Refused("no.", reason="Not a word!")))
    assert isinstance(back, errors.Refused)
    assert back.reason == "policy"


@pytest.mark.parametrize(
    "cls", [errors.LocalProtocolViolation, errors.RemoteProtocolViolation, errors.ProtocolViolation]
)
def test_whose_violation_it_was_does_not_travel(cls: type[ExecutionError]) -> None:
    assert type(from_wire(to_wire(cls("x")))) is errors.ProtocolViolation


@pytest.mark.parametrize("error", [errors.ConnectionLost("x"), errors.ExecutionError("x")])
def test_a_lost_connection_of_the_worker_does_not_look_like_the_loss_of_ours(
    error: ExecutionError,
) -> None:
    assert to_wire(error) == "worker_failure: x"
    assert type(from_wire("connection_lost: x")) is errors.WorkerFailure


def test_a_foreign_exception_is_a_worker_failure_with_its_type() -> None:
    assert to_wire(OSError(28, "No space left on device")) == (
        "worker_failure: OSError: [Errno 28] No space left on device"
    )
    assert to_wire(KeyError()) == "worker_failure: KeyError"


def test_a_group_is_told_by_the_first_of_our_own_errors() -> None:
    inner = ExceptionGroup("g", [ValueError("v"), errors.Refused("no.", reason="read_only")])
    assert to_wire(ExceptionGroup("outer", [inner])) == "refused/read_only: no."
    assert to_wire(ExceptionGroup("g", [ValueError("v")])) == "worker_failure: ValueError: v"


def test_the_text_of_a_failure_is_never_empty_and_never_long() -> None:
    assert to_wire(errors.WorkerFailure("")) == "worker_failure: WorkerFailure"
    long = to_wire(errors.WorkerFailure("x" * 100_000))
    assert len(long) == MAX_FAILURE_CHARACTERS
    assert long.endswith("...")


def test_a_name_that_is_not_utf_8_can_be_told() -> None:
    assert to_wire(errors.WorkerFailure("a\udcffb")) == "worker_failure: a\\udcffb"


@pytest.mark.parametrize(
    "text", ["something broke", "no_such_code: x", "refused", "refused: ", "os.system: x"]
)
def test_an_unknown_code_is_a_plain_worker_failure_with_the_whole_text(text: str) -> None:
    error = from_wire(text)
    assert type(error) is errors.WorkerFailure
    assert error.message == text


def test_an_empty_text_still_says_something() -> None:
    assert str(from_wire("")) == "the worker failed without saying why."


@given(st.text())
def test_no_text_of_a_peer_is_anything_but_an_execution_error(text: str) -> None:
    assert isinstance(from_wire(text), ExecutionError)
