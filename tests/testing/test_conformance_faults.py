"""Every check of the conformance suite can fail: each finds a fault that was planted for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.testing.faults import FAULTS
from tests.testing.lying import lying

import moorage
from moorage.testing.conformance import (
    ABILITIES,
    Check,
    ConformanceLimits,
    Declared,
    OpenSession,
    Outcome,
    conformance_checks,
    places_of,
    run_check,
    run_conformance,
)

CHECKS = conformance_checks()
LIMITS = ConformanceLimits(check_seconds=60.0)
NO_FINDINGS = ("AttributeError", "TypeError", "KeyError", "it did not end")
"""A lie that breaks the check itself, or one that only takes long, proves nothing."""


def everything_offered() -> Declared:
    """Return what a backend declares that claims to offer everything."""
    declared = Declared()
    declared.mode = "standard"
    declared._offered.update(ABILITIES)
    return declared


def mounting(home: Path) -> OpenSession:
    """Open local sessions whose workspace is the folder that is to be mounted."""

    def open_one(
        changes: dict[str, Any] | None = None, /, **options: Any
    ) -> AbstractAsyncContextManager[moorage.Session]:
        folder = (changes or {})["host_workspace"]
        return moorage.open_session(workspace=folder, home=home, **options)

    return open_one


async def outcome_of(each: Check, open_session: OpenSession) -> Outcome:
    faulty = lying(open_session, FAULTS[each.name])
    return await run_check(each, faulty, everything_offered(), limits=LIMITS)


def assert_found(outcome: Outcome) -> None:
    assert outcome.state == "failed"
    assert not outcome.reason.startswith(NO_FINDINGS), outcome.reason


@pytest.mark.needs("landlock")
@pytest.mark.needs("git")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "each", [each for each in CHECKS if each.theme != "mounts"], ids=lambda each: each.name
)
async def test_the_check_finds_the_fault_that_was_planted_for_it(each: Check) -> None:
    async with places_of({"backend": "local"})() as open_session:
        assert_found(await outcome_of(each, open_session))


@pytest.mark.needs("root")
@pytest.mark.needs("landlock")
@pytest.mark.parametrize("each", conformance_checks("mounts"), ids=lambda each: each.name)
async def test_the_check_finds_what_is_wrong_with_a_mount(each: Check, tmp_path: Path) -> None:
    assert_found(await outcome_of(each, mounting(tmp_path / "home")))


def test_there_is_a_fault_for_every_check() -> None:
    assert sorted(FAULTS) == sorted(each.name for each in CHECKS)


class Refusing:
    """A session without commands, which says so and yet, or not, runs them."""

    def __init__(self, true: moorage.Session, *, has_effect: bool) -> None:
        self._true, self._has_effect = true, has_effect

    def __getattr__(self, name: str) -> Any:
        return getattr(self._true, name)

    async def run(self, command: str, **options: Any) -> None:
        if self._has_effect:
            await self._true.run(command, **options)
        raise moorage.Refused("there are no commands here.")


@pytest.mark.needs("landlock")
@pytest.mark.parametrize(
    ("has_effect", "required", "state"),
    [(False, (), "refused"), (True, (), "failed"), (False, ("commands",), "failed")],
)
async def test_what_is_not_offered_has_to_be_refused_without_an_effect(
    has_effect: bool, required: tuple[str, ...], state: str
) -> None:
    (each,) = (each for each in CHECKS if each.name == "a_signal_is_told")
    async with places_of({"backend": "local"})() as open_session:

        @asynccontextmanager
        async def refusing(*changes: Any, **options: Any) -> AsyncIterator[Any]:
            async with open_session(*changes, **options) as session:
                yield Refusing(session, has_effect=has_effect)

        outcome = await run_check(each, refusing, Declared(), required=required)
    assert outcome.state == state
    said = "had an effect" if has_effect else "there are no commands here."
    assert said in outcome.reason


async def test_an_environment_that_cannot_be_had_fails_and_refuses_nothing() -> None:
    places = places_of({"backend": "command", "command": ["/nowhere/adapter"]})
    report = await run_conformance(places, checks=conformance_checks("exports")[:2])
    assert [each.state for each in report.outcomes] == ["failed", "failed"]
    assert "/nowhere/adapter" in report.failures[0].reason
    assert not report.conforms
