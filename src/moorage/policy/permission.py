"""Permission modes and the effects that tools declare."""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from moorage.errors import ConfigError


class PermissionMode(StrEnum):
    """How far the tools of a session may reach."""

    READ_ONLY = "read_only"
    STANDARD = "standard"
    UNCONFINED = "unconfined"

    @property
    def is_restricted(self) -> bool:
        """Return whether the kernel must confine commands in this mode."""
        return self is not PermissionMode.UNCONFINED


class Effect(StrEnum):
    """What a tool may do to the workspace, declared once per tool."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


def parse_mode(text: str) -> PermissionMode:
    """Return the mode that ``text`` names; empty text is ``standard``.

    Raises:
        ConfigError: the text names no mode. It is never read as a wider one.
    """
    if not text:
        return PermissionMode.STANDARD
    try:
        return PermissionMode(text)
    except ValueError:
        known = ", ".join(mode.value for mode in PermissionMode)
        raise ConfigError(f"unknown permission mode {text!r}; use one of {known}.") from None


def rank(mode: PermissionMode) -> int:
    """Return the width of a mode: a higher number allows more."""
    match mode:
        case PermissionMode.READ_ONLY:
            return 0
        case PermissionMode.STANDARD:
            return 1
        case PermissionMode.UNCONFINED:
            return 2
        case _:
            assert_never(mode)


def is_within(mode: PermissionMode, highest: PermissionMode) -> bool:
    """Return whether ``mode`` is at most as wide as ``highest``."""
    return rank(mode) <= rank(highest)


def allows(mode: PermissionMode, effect: Effect) -> bool:
    """Return whether a tool with ``effect`` may run at all under ``mode``.

    Commands may run in ``read_only``: what they may be is decided by their classification, and the
    kernel lets them write nothing.
    """
    match mode:
        case PermissionMode.READ_ONLY:
            return effect is not Effect.WRITE
        case PermissionMode.STANDARD | PermissionMode.UNCONFINED:
            return True
        case _:
            assert_never(mode)
