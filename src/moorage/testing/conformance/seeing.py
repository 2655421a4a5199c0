"""How checks compare what they see with what is so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moorage.errors import (
    ConfigError,
    ConfinementUnavailable,
    ExecutionError,
    InvalidArguments,
    ProtocolMismatch,
    ProvisionError,
    Refused,
    UnknownTool,
    WorkerFailure,
)
from moorage.host.session import Session
from moorage.testing.conformance.place import names_in

REFUSALS = (
    ConfigError,
    ConfinementUnavailable,
    InvalidArguments,
    ProtocolMismatch,
    ProvisionError,
    Refused,
    UnknownTool,
    WorkerFailure,
)
"""Errors that say that nothing happened; a tool that ran and failed is none of them."""


def same(seen: object, wanted: object, what: str) -> None:
    """Return when both are equal.

    Raises:
        AssertionError: they are not.
    """
    if seen != wanted:
        raise AssertionError(f"{what}: {_short(seen)} was seen, and {_short(wanted)} is right")


def holds(condition: object, otherwise: str) -> None:
    """Return when the condition is true.

    Raises:
        AssertionError: it is not; ``otherwise`` says what was seen.
    """
    if not condition:
        raise AssertionError(otherwise)


@contextmanager
def fails(*kinds: type[ExecutionError], what: str) -> Iterator[list[ExecutionError]]:
    """Expect one of these errors, with a sentence; the list holds it afterwards.

    Raises:
        AssertionError: nothing was raised, or another error, or one that says nothing.
    """
    caught: list[ExecutionError] = []
    try:
        yield caught
    except kinds as error:
        holds(error.message.strip(), f"{what}: the error {type(error).__name__} says nothing")
        caught.append(error)
        return
    except ExecutionError as error:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        told = f"{what}: {type(error).__name__} ({error.message}) was raised, and not {wanted}"
        raise AssertionError(told) from error
    raise AssertionError(f"{what}: no error was raised")


def data_of(result: Any) -> dict[str, Any]:
    """Return what a tool's result says as data."""
    data: dict[str, Any] = result.structured_content or {}
    return data


async def nothing_there(session: Session, *names: str) -> None:
    """Return when the root holds none of these names.

    Raises:
        AssertionError: it does; what was refused has had an effect.
    """
    left = sorted(set(names) & set(await names_in(session)))
    holds(not left, f"what was refused has had an effect: {', '.join(left)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:140]} ... {text[-140:]}"
