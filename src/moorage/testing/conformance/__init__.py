"""Conformance: does an environment do what its backend declares, and what every one must do?"""

from __future__ import annotations

from moorage.testing.conformance.abilities import ATTEMPTS, Declared
from moorage.testing.conformance.catalogue import conformance_checks
from moorage.testing.conformance.opening import places_of
from moorage.testing.conformance.place import OpenSession, Place
from moorage.testing.conformance.registry import Check
from moorage.testing.conformance.running import (
    ConformanceLimits,
    OpenPlace,
    Outcome,
    Report,
    check_conforms,
    run_check,
    run_conformance,
)

ABILITIES = tuple(ATTEMPTS)
"""What a backend may refuse, as long as it says so and nothing happens."""

__all__ = [
    "ABILITIES",
    "Check",
    "ConformanceLimits",
    "Declared",
    "OpenPlace",
    "OpenSession",
    "Outcome",
    "Place",
    "Report",
    "check_conforms",
    "conformance_checks",
    "places_of",
    "run_check",
    "run_conformance",
]
