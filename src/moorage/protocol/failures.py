"""Failures as the wire carries them: one text, ``code: sentence``, by a closed table.

The other side never chooses which class is built: codes are looked up here, and anything else is a
plain ``WorkerFailure``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from moorage import errors

MAX_FAILURE_CHARACTERS = 16_384
"""A failure is a sentence, not a transport for data."""

_CLASSES: dict[str, type[errors.ExecutionError]] = {
    cls.code: cls
    for cls in (
        errors.ConfigError,
        errors.ProvisionError,
        errors.RetainedStateMissing,
        errors.BackendUnavailable,
        errors.ProtocolMismatch,
        errors.ProtocolViolation,
        errors.OutcomeUnknown,
        errors.EnvironmentDied,
        errors.ShutdownIncomplete,
        errors.Refused,
        errors.ConfinementUnavailable,
        errors.InvalidArguments,
        errors.UnknownTool,
        errors.RequestCancelled,
        errors.WorkerFailure,
        errors.ToolFailed,
    )
}

_PREFIX = re.compile(r"([a-z_]{1,64})(?:/([a-z0-9_]{1,64}))?: (?=.)", re.DOTALL)


def to_wire(error: BaseException) -> str:
    """Return ``code: sentence`` for a failure; the text is never empty."""
    leaf = _telling(error)
    if not isinstance(leaf, errors.ExecutionError):
        sentence = f"{type(leaf).__name__}: {leaf}".rstrip(": ")
        return _bounded(f"{errors.WorkerFailure.code}: {sentence}")
    sentence = str(leaf) or type(leaf).__name__
    if isinstance(leaf, errors.Refused) and re.fullmatch(r"[a-z0-9_]{1,64}", leaf.reason):
        return _bounded(f"{leaf.code}/{leaf.reason}: {sentence}")
    return _bounded(f"{_code(leaf)}: {sentence}")


def from_wire(text: str) -> errors.ExecutionError:
    """Return the error that a wire text stands for; an unknown code is a ``WorkerFailure``."""
    match = _PREFIX.match(text)
    cls = _CLASSES.get(match[1]) if match else None
    if match is None or cls is None:
        return errors.WorkerFailure(text or "the worker failed without saying why.")
    sentence = text[match.end() :]
    if issubclass(cls, errors.Refused):
        return cls(sentence, reason=match[2] or "policy")
    return cls(sentence)


def _code(error: errors.ExecutionError) -> str:
    # The nearest class of the table: a local and a remote violation are one to the other side, and
    # the worker's own lost connection must not look like the loss of this one.
    for cls in type(error).__mro__:
        if issubclass(cls, errors.ExecutionError) and _CLASSES.get(cls.code) is cls:
            return cls.code
    return errors.WorkerFailure.code


def _telling(error: BaseException) -> BaseException:
    """Return the failure inside a group that says most: the first of ours, else the first."""
    leaves = list(_leaves(error))
    ours = (leaf for leaf in leaves if isinstance(leaf, errors.ExecutionError))
    return next(ours, leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _bounded(text: str) -> str:
    # Lone surrogates (odd file names in a message) cannot travel in JSON.
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= MAX_FAILURE_CHARACTERS:
        return text
    return text[: MAX_FAILURE_CHARACTERS - 3] + "..."
