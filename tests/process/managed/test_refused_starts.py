"""Starts that the machine does not allow: told in one sentence, with nothing run or kept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from moorage.confine.nursery import Nursery
from moorage.errors import ConfinementUnavailable, ExecutionError, ProvisionError
from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor

BASE = {"PATH": os.environ["PATH"]}


@pytest.fixture(params=[0, 2], ids=["no Landlock", "Landlock ABI 2"])
async def supervisor(request: pytest.FixtureRequest, nursery: Nursery) -> AsyncIterator[Supervisor]:
    async with Supervisor(
        nursery, base_variables=lambda _: BASE, found_abi=request.param
    ) as supervisor:
        yield supervisor


def check_nothing_is_left(bench, error: ExecutionError) -> None:
    assert "\n" not in error.message
    assert bench.manager.list(bench.session) == ()
    assert os.listdir(bench.folder / "processes") == os.listdir(bench.folder / "logs") == []
    assert bench.events == []


@pytest.mark.parametrize("tty", [True, False], ids=["terminal", "pipes"])
@pytest.mark.parametrize("mode", [PermissionMode.STANDARD, PermissionMode.READ_ONLY])
async def test_a_kernel_that_cannot_confine_starts_nothing_in_the_background(
    bench, place, tty, mode
) -> None:
    with pytest.raises(ConfinementUnavailable, match="Landlock") as raised:
        await bench.start("touch ran", tty=tty, plan=place.plan(mode))
    check_nothing_is_left(bench, raised.value)
    assert not (place.root / "ran").exists()


@pytest.mark.parametrize("tty", [True, False], ids=["terminal", "pipes"])
async def test_a_missing_shell_is_named_and_starts_nothing(bench, place, tty) -> None:
    plan = place.plan(PermissionMode.UNCONFINED)
    bench.supervisor.set_base_variables(plan, {"PATH": str(place.root)})
    with pytest.raises(ProvisionError, match="bash could not be started") as raised:
        await bench.start("true", tty=tty, plan=plan)
    check_nothing_is_left(bench, raised.value)
    bench.supervisor.set_base_variables(plan, BASE)
    started = await bench.start("echo on", plan=plan)
    await bench.end_of(started.id)
    assert (await bench.read(started.id)).output == "on\n"
