from __future__ import annotations

from collections.abc import Iterator

import pytest

from moorage.cli import exit_codes, steps  # noqa: F401 - steps declares an error of its own
from moorage.cli.exit_codes import (
    EXIT_CODES,
    exit_code_of,
    exit_code_of_outcome,
    without_clash,
)
from moorage.errors import ConfinementUnavailable, ExecutionError, NotFound, Refused, UnknownTool


def families(root: type[ExecutionError] = ExecutionError) -> Iterator[type[ExecutionError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith("moorage."):
            yield from families(child)


def test_every_error_of_the_tree_stands_in_the_table() -> None:
    assert {error.code for error in families()} <= set(EXIT_CODES)


def test_a_code_that_the_table_does_not_know_is_our_own_failure() -> None:
    class FromAPlugin(ExecutionError):
        code = "from_a_plugin"

    assert exit_code_of(FromAPlugin("what")) == 125


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Refused("no."), 126),
        (ConfinementUnavailable("no."), 126),
        (UnknownTool("no."), 127),
        (NotFound("no."), 127),
        (ExecutionError("no."), 125),
    ],
)
def test_refused_is_126_and_not_found_is_127(error: ExecutionError, expected: int) -> None:
    assert exit_code_of(error) == expected


@pytest.mark.parametrize(
    ("outcome", "exit_code", "expected"),
    [
        ("exited", 0, 0),
        ("exited", 7, 7),
        ("signalled", 128 + 9, 137),
        ("timed_out", -1, 124),
        ("cancelled", -1, 130),
        ("environment_died", -1, 125),
        ("unknown", -1, 125),
        ("promoted", -1, 125),
        ("exited", -1, 125),
        ("exited", None, 125),
    ],
)
def test_an_outcome_becomes_the_exit_code_that_shells_expect(
    outcome: str, exit_code: int | None, expected: int
) -> None:
    assert exit_code_of_outcome(outcome, exit_code) == expected


def test_a_failure_of_ours_cannot_be_taken_for_a_commands_own_one_or_two() -> None:
    assert without_clash(exit_codes.USAGE) == 125
    assert without_clash(exit_codes.FAILED) == 125
    assert without_clash(exit_codes.NOT_FOUND) == 127
