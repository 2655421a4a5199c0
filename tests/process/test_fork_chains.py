"""Programs that fork and end faster than the process table can be read, and in disguise.

Each chain holds the command's output open: its end says that nobody is left. A chain is as wide as
it was begun and ends by itself after a while, so that a defect cannot exhaust the machine.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys

import anyio
import pytest

from moorage.confine import landlock
from moorage.policy.permission import PermissionMode
from moorage.process.supervisor import Supervisor

pytestmark = pytest.mark.needs("landlock")

BASE = {"PATH": os.environ["PATH"]}

CHAIN = """
import os, time
end = time.monotonic() + 20
os.write(1, b"begun\\n")
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def chain(disguise: str = "env -i", width: int = 2) -> str:
    """Return shell text that begins chains in the background."""
    one = f"{disguise} {shlex.quote(sys.executable)} -I -S -c {shlex.quote(CHAIN)} &"
    return f"ulimit -u 4000; {one * width}"


@pytest.fixture(params=[None, 5], ids=["a warden", "an old kernel"])
async def supervisor(nursery, limits, request):
    """Return a supervisor whose launchers have a warden, and one whose launchers have none."""
    abi = min(landlock.abi(), request.param or 99)
    async with Supervisor(
        nursery, base_variables=lambda _: BASE, limits=limits, found_abi=abi
    ) as supervisor:
        yield supervisor


@pytest.mark.parametrize("disguise", ["", "env -i", "MOORAGE_CALL=${MOORAGE_CALL%.*}.999999"])
async def test_a_chain_does_not_outlive_the_end_of_its_command(hand, shell, disguise) -> None:
    with anyio.fail_after(10):
        async with hand.supervisor.open(shell(chain(disguise) + "sleep 1000")) as child:
            for _ in range(2):
                await hand.read_line(child.stdout)
            await child.end(0)
            assert await hand.read_all(child.stdout) == ""


async def test_a_chain_that_outlived_its_shell_is_counted_and_ended(hand, shell) -> None:
    with anyio.fail_after(10):
        async with hand.supervisor.open(shell(chain())) as child:
            for _ in range(2):
                await hand.read_line(child.stdout)
            await child.wait()
            assert await child.count_left() >= 1
            await child.end(0)
            assert await child.count_left() == 0
            assert await hand.read_all(child.stdout) == ""


async def test_the_end_of_a_chain_spares_another_command(hand, shell) -> None:
    with anyio.fail_after(10):
        async with (
            hand.supervisor.open(shell("sleep 1000")) as other,
            hand.supervisor.open(shell(chain(width=1) + "sleep 1000")) as child,
        ):
            await hand.read_line(child.stdout)
            await child.end(0)
            assert await hand.read_all(child.stdout) == ""
            assert other.is_running


async def test_a_chain_does_not_outlive_the_supervisor(nursery, hand, shell, limits) -> None:
    with anyio.fail_after(10):
        async with (
            Supervisor(nursery, base_variables=lambda _: BASE, limits=limits) as supervisor,
            supervisor.open(shell(chain())) as child,
        ):
            for _ in range(2):
                await hand.read_line(child.stdout)
            await child.wait()
            await supervisor.aclose()
            assert await hand.read_all(child.stdout) == ""


@pytest.mark.parametrize("mode", [PermissionMode.STANDARD, PermissionMode.READ_ONLY])
async def test_a_chain_does_not_outlive_its_launcher(hand, shell, place, mode) -> None:
    spec = shell("echo $PPID;" + chain() + "sleep 1000", plan=place.plan(mode))
    with anyio.fail_after(10):
        async with hand.supervisor.open(spec) as child:
            launcher = int(await hand.read_line(child.stdout))
            for _ in range(2):
                await hand.read_line(child.stdout)
            os.kill(launcher, signal.SIGKILL)
            assert await hand.read_all(child.stdout) == ""


async def test_a_chain_does_not_outlive_nursery_and_launcher(
    own_nursery, hand, shell, limits
) -> None:
    with anyio.fail_after(10):
        async with (
            Supervisor(own_nursery, base_variables=lambda _: BASE, limits=limits) as supervisor,
            supervisor.open(shell("echo $PPID;" + chain() + "sleep 1000")) as child,
        ):
            launcher = int(await hand.read_line(child.stdout))
            for _ in range(2):
                await hand.read_line(child.stdout)
            os.kill(own_nursery.pid, signal.SIGKILL)
            os.kill(launcher, signal.SIGKILL)
            assert await hand.read_all(child.stdout) == ""
