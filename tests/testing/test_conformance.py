"""The whole suite on this machine, and what the suite itself promises."""

from __future__ import annotations

import pytest

from moorage.testing.conformance import (
    ABILITIES,
    Check,
    Declared,
    check_conforms,
    conformance_checks,
    places_of,
)

CHECKS = conformance_checks()
DECLARED = Declared()

REQUIRED = frozenset(ABILITIES) - {"separation", "mounts"}
"""A workspace on this machine is one folder, whoever names it, and no folder is mounted."""


@pytest.mark.needs("landlock")
@pytest.mark.needs("git")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("each", CHECKS, ids=lambda each: each.name)
async def test_the_local_environment_conforms(each: Check) -> None:
    async with places_of({"backend": "local"})() as open_session:
        await check_conforms(each, open_session, DECLARED, required=REQUIRED)


def test_there_are_enough_checks_and_each_says_what_it_proves() -> None:
    assert len(CHECKS) >= 80
    for each in CHECKS:
        assert each.proves.endswith("."), each.name
        assert set(each.needs) <= set(ABILITIES), each.name


def test_themes_choose_checks() -> None:
    chosen = conformance_checks("honesty")
    assert len(chosen) == 7
    assert {each.theme for each in chosen} == {"honesty"}
