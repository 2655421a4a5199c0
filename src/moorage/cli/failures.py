"""What is said of an error: its code, what happened, what to do, and the exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from moorage.cli import exit_codes
from moorage.errors import ExecutionError


class Failure(NamedTuple):
    """One error, as people and scripts hear of it."""

    code: str
    message: str
    hint: str
    exit_code: int


def described(error: Exception) -> list[Failure]:
    """Return what is to be said of an error, or of each error in a group."""
    if isinstance(error, ExceptionGroup):
        return [failure for inner in error.exceptions for failure in described(inner)]
    return [_described(error)]


def as_document(failures: Sequence[Failure]) -> dict[str, Any]:
    """Return one JSON object for all: the code and hint of the first, and every message."""
    first = failures[0]
    message = " ".join([first.message, *(sentence(each.message) for each in failures[1:])])
    return {"code": first.code, "message": message, "hint": first.hint}


def _described(error: Exception) -> Failure:
    if isinstance(error, ExecutionError):
        return Failure(error.code, error.message, error.hint, exit_codes.exit_code_of(error))
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "moorage"
        return Failure(
            "usage_error",
            sentence(error.format_message()),
            f"See {path} --help.",
            exit_codes.USAGE,
        )
    if isinstance(error, OSError) and error.filename:
        what = f"{os.fsdecode(error.filename)}: {error.strerror}."
        return Failure("execution_error", what, "", exit_codes.OWN_FAILURE)
    if isinstance(error, OSError) and error.strerror:
        what = f"Reading or writing failed: {error.strerror}."
        return Failure("execution_error", what, "", exit_codes.OWN_FAILURE)
    return Failure(
        "execution_error",
        f"Moorage itself failed: {type(error).__name__}: {error}.",
        "Set MOORAGE_DEBUG=1 to see where.",
        exit_codes.OWN_FAILURE,
    )


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends in a way of its own."""
    return text if text.endswith((".", "?", "!", ")")) else f"{text}."
