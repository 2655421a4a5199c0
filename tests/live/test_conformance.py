"""The conformance suite in real environments: containers, another machine, and Apptainer."""

from __future__ import annotations

import pytest
from tests.live.conftest import Opener

from moorage.testing.conformance import (
    ABILITIES,
    Check,
    Declared,
    check_conforms,
    conformance_checks,
)

CHECKS = pytest.mark.parametrize("each", conformance_checks(), ids=lambda each: each.name)
DECLARED = {name: Declared() for name in ("docker", "ssh", "apptainer")}

EVERYTHING_BUT_MOUNTS = frozenset(ABILITIES) - {"mounts"}
"""No folder of this machine can be mounted on another one."""

pytestmark = [pytest.mark.needs("root"), pytest.mark.needs("landlock"), pytest.mark.timeout(180)]


@pytest.mark.needs("dockerd")
@CHECKS
async def test_docker_conforms(open_box: Opener, each: Check) -> None:
    await check_conforms(each, open_box, DECLARED["docker"], required=ABILITIES)


@pytest.mark.needs("sshd")
@CHECKS
async def test_ssh_conforms(open_there: Opener, each: Check) -> None:
    await check_conforms(each, open_there, DECLARED["ssh"], required=EVERYTHING_BUT_MOUNTS)


@pytest.mark.needs("apptainer")
@CHECKS
async def test_apptainer_conforms(open_image: Opener, each: Check) -> None:
    await check_conforms(each, open_image, DECLARED["apptainer"], required=ABILITIES)
