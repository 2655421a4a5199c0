"""Runs checks against a place and tells of each: passed, failed, or refused as declared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Literal

import anyio
import msgspec

from moorage.errors import ExecutionError
from moorage.testing.conformance.abilities import Declared
from moorage.testing.conformance.catalogue import conformance_checks
from moorage.testing.conformance.place import OpenSession
from moorage.testing.conformance.registry import Check

State = Literal["passed", "failed", "refused"]

OpenPlace = Callable[[], AbstractAsyncContextManager[OpenSession]]
"""Returns the context of one check's own place: a fresh home, and no files of other checks."""


class ConformanceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a check may take."""

    check_seconds: float = 90.0
    """With making the environment, more than once."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How one check went; ``reason`` is what was seen, or the sentence of the refusal."""

    name: str
    theme: str
    state: State
    proves: str
    reason: str = ""
    milliseconds: float = 0.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How all of them went."""

    outcomes: tuple[Outcome, ...]

    @property
    def conforms(self) -> bool:
        """Return whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Return the checks that failed."""
        return tuple(each for each in self.outcomes if each.state == "failed")

    def count(self, state: State) -> int:
        """Return how many checks went so."""
        return sum(each.state == state for each in self.outcomes)


async def run_conformance(
    open_place: OpenPlace,
    *,
    checks: Iterable[Check] | None = None,
    required: Collection[str] = (),
    on_outcome: Callable[[Outcome], None] = lambda _: None,
    limits: ConformanceLimits | None = None,
) -> Report:
    """Run every check, or those given, each in a place of its own.

    ``required`` names abilities that may not be refused here; ``on_outcome`` is told of each check
    as soon as it has ended.
    """
    declared = Declared()
    outcomes = []
    for each in conformance_checks() if checks is None else checks:
        async with open_place() as open_session:
            outcome = await run_check(
                each, open_session, declared, required=required, limits=limits
            )
        outcomes.append(outcome)
        on_outcome(outcome)
    return Report(outcomes=tuple(outcomes))


async def run_check(
    each: Check,
    open_session: OpenSession,
    declared: Declared | None = None,
    *,
    required: Collection[str] = (),
    limits: ConformanceLimits | None = None,
) -> Outcome:
    """Run one check; give the same ``declared`` to all checks of one backend, to try things once.

    It never raises for what the backend does: that is in the outcome.
    """
    seconds = (limits or ConformanceLimits()).check_seconds
    since = anyio.current_time()
    try:
        with anyio.fail_after(seconds):
            state, reason = await _tried(each, open_session, declared or Declared(), required)
    except TimeoutError as error:
        state, reason = "failed", str(error) or f"it did not end within {seconds:g} s"
    except Exception as error:  # noqa: BLE001 - whatever a backend makes happen is its outcome
        state, reason = "failed", said(error)
    return Outcome(
        name=each.name,
        theme=each.theme,
        proves=each.proves,
        state=state,
        reason=reason,
        milliseconds=(anyio.current_time() - since) * 1000,
    )


async def _tried(
    each: Check, open_session: OpenSession, declared: Declared, required: Collection[str]
) -> tuple[State, str]:
    refused, sentence = await declared.missing(each.needs, open_session)
    if refused:
        state: State = "failed" if refused in required else "refused"
        return state, f"{refused}: {sentence}"
    await each.run(await declared.place(open_session))
    return "passed", ""


async def check_conforms(
    each: Check,
    open_session: OpenSession,
    declared: Declared | None = None,
    *,
    required: Collection[str] = (),
) -> Outcome:
    """Run one check as a test: return how it went.

    Raises:
        AssertionError: it failed.
    """
    outcome = await run_check(each, open_session, declared, required=required)
    if outcome.state == "failed":
        raise AssertionError(f"{outcome.name}: {outcome.reason}\n{outcome.proves}")
    return outcome


def said(error: BaseException) -> str:
    """Return what an error says; of a group, what its members say."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(said(each) for each in error.exceptions))
    if isinstance(error, AssertionError):
        return str(error) or "an assertion without words"
    name = type(error).__name__
    text = str(error) if isinstance(error, ExecutionError) else repr(error)
    return f"{name}: {text}"
