from __future__ import annotations

import os
import signal

import anyio
import pytest

from moorage.errors import (
    EnvironmentDied,
    ProvisionError,
)
from moorage.process.spec import ExitStatus, ProgramSpec, SupervisorLimits
from moorage.process.supervisor import Supervisor

BASE = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.needs("landlock")


async def test_a_lost_launcher_ends_what_it_started_and_the_next_command_runs(hand, shell) -> None:
    command = "setsid sleep 1000 & echo $! $PPID; sleep 1000"
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell(command)) as child:
            left, launcher = map(int, (await hand.read_line(child.stdout)).split())
            os.kill(launcher, signal.SIGKILL)
            with pytest.raises(EnvironmentDied, match="was ended"):
                await child.wait()
            # It is told only once everything is gone.
            with pytest.raises(ProcessLookupError):
                os.kill(left, 0)
            await child.end(0)
            assert await child.count_left() == 0
    assert (await hand.run(shell("echo again"))).stdout == "again\n"


async def test_a_command_that_kills_all_it_can_reach_ends_only_its_own_place(hand, shell) -> None:
    with anyio.fail_after(5):
        with pytest.raises(EnvironmentDied):
            async with hand.supervisor.open(shell("kill -9 -1; sleep 1000")) as child:
                await child.wait()
    assert (await hand.run(shell("echo again"))).stdout == "again\n"


async def test_a_command_that_stops_all_it_can_reach_does_not_hang_us(hand, shell) -> None:
    with anyio.fail_after(5):
        async with hand.supervisor.open(shell("echo; kill -STOP $PPID; echo on")) as child:
            await hand.read_line(child.stdout)
            assert await hand.finish(child) == (ExitStatus(exit_code=0), "on\n", "")


async def test_a_nursery_that_does_not_answer_is_not_waited_for(own_nursery, place) -> None:
    impatient = SupervisorLimits(answer_seconds=0.02, kill_seconds=0.02)
    os.kill(own_nursery.pid, signal.SIGSTOP)
    try:
        with anyio.fail_after(5):
            async with Supervisor(own_nursery, limits=impatient) as supervisor:
                with pytest.raises(EnvironmentDied):
                    await supervisor.prepare(place.plan())
    finally:
        os.kill(own_nursery.pid, signal.SIGCONT)


async def test_a_launcher_that_does_not_answer_is_ended(nursery, place, shell, hand) -> None:
    impatient = SupervisorLimits(answer_seconds=0.2, kill_seconds=0.1)
    with anyio.fail_after(5):
        async with Supervisor(nursery, limits=impatient) as supervisor:
            blocked = place.root / "fifo"
            os.mkfifo(blocked)
            # Opening the program blocks, and with it the launcher: nobody writes to the FIFO.
            spec = ProgramSpec(argv=(str(blocked),), plan=place.plan())
            with pytest.raises((EnvironmentDied, ProvisionError)):
                await hand.__class__(supervisor).run(spec)


async def test_without_its_nursery_nothing_survives_and_nothing_starts(
    own_nursery, limits, shell, hand
) -> None:
    with anyio.fail_after(8):
        async with Supervisor(
            own_nursery, limits=limits, base_variables=lambda _: BASE
        ) as supervisor:
            async with supervisor.open(shell("setsid sleep 1000 & echo $!; sleep 1000")) as child:
                left = int(await hand.read_line(child.stdout))
                os.kill(own_nursery.pid, signal.SIGKILL)
                with pytest.raises(EnvironmentDied):
                    await child.wait()
                await hand.await_end(left)
            with pytest.raises(ProvisionError, match="has ended"):
                await supervisor.prepare(shell("").plan)


async def test_what_nursery_and_launcher_leave_together_is_ended(
    own_nursery, limits, shell, hand
) -> None:
    spec = shell("setsid sleep 1000 & echo $! $PPID; sleep 1000")
    with anyio.fail_after(8):
        async with (
            Supervisor(own_nursery, limits=limits, base_variables=lambda _: BASE) as supervisor,
            supervisor.open(spec) as child,
        ):
            left, launcher = map(int, (await hand.read_line(child.stdout)).split())
            os.kill(own_nursery.pid, signal.SIGSTOP)
            os.kill(launcher, signal.SIGKILL)
            os.kill(own_nursery.pid, signal.SIGKILL)
            with pytest.raises(EnvironmentDied):
                await child.wait()
            await hand.await_end(left)
