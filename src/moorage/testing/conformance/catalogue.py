"""All checks together."""

from __future__ import annotations

from moorage.testing.conformance import (
    answers,
    commands,
    endings,
    files,
    lifetime,
    modes,
    mounts,
    processes,
    raw_bytes,
    searching,
)
from moorage.testing.conformance.registry import Check, enlisted

ROOMS = (
    files,
    searching,
    commands,
    raw_bytes,
    processes,
    endings,
    modes,
    mounts,
    lifetime,
    answers,
)
"""Where the checks are."""


def conformance_checks(*themes: str) -> tuple[Check, ...]:
    """Return the checks of these themes, or all."""
    return tuple(each for each in enlisted() if not themes or each.theme in themes)
