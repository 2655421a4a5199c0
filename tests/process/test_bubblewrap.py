"""Bubblewrap as the confinement provider, with exactly the configuration that the pages show."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from moorage.confine.nursery import Nursery
from moorage.confine.provider import ConfinementProvider, check_provider
from moorage.policy.permission import PermissionMode
from moorage.process.spec import ExitStatus, SupervisorLimits
from moorage.process.supervisor import Supervisor

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
BASE = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.needs("bwrap")


def documented() -> ConfinementProvider:
    (block,) = re.findall(r"```json\n(\{\s*\"confinement\".*?)```", PAGE.read_text(), re.DOTALL)
    fields = json.loads(block)["confinement"]
    enforcement = fields.pop("enforcement")
    words = {name: tuple(values) for name, values in fields.items()}
    return check_provider(ConfinementProvider(enforcement=enforcement, **words))


@pytest.fixture
async def wrapped(nursery: Nursery, limits: SupervisorLimits, hand) -> AsyncIterator:
    """Start everything through bubblewrap, as on a kernel without Landlock."""
    async with Supervisor(
        nursery, limits=limits, provider=documented(), found_abi=0, base_variables=lambda _: BASE
    ) as supervisor:
        yield hand.__class__(supervisor)


async def test_a_command_writes_in_its_roots_and_nowhere_else(wrapped, shell, place) -> None:
    command = (
        f"pwd; echo a > here; echo b > {place.private}/here; echo c > {place.outside}/there; "
        f"echo d > /dev/null; exit 7"
    )
    finished = await wrapped.run(shell(command))
    assert finished.status == ExitStatus(exit_code=7)
    assert finished.stdout == f"{place.root}\n"
    assert (place.root / "here").exists()
    assert (place.private / "here").exists()
    assert list(place.outside.iterdir()) == []
    assert finished.stderr.count("Read-only file system") == 1


async def test_in_read_only_the_roots_can_only_be_read(wrapped, shell, place) -> None:
    (place.root / "file").write_text("kept\n")
    plan = place.plan(PermissionMode.READ_ONLY)
    finished = await wrapped.run(shell("cat file; echo a > file; rm file; touch new", plan=plan))
    assert finished.stdout == "kept\n"
    assert [path.name for path in place.root.iterdir()] == ["file"]
    assert (place.root / "file").read_text() == "kept\n"


async def test_nothing_hidden_can_be_read_by_any_way(wrapped, shell, place) -> None:
    (place.root / "link").symlink_to(place.hidden)
    command = (
        f"cat {place.hidden}/secret link/secret; umount {place.hidden}; cat {place.hidden}/secret; "
        f"for pid in /proc/[0-9]*; do cat $pid/root{place.hidden}/secret $pid/environ; done; "
        f"unshare -Urm sh -c 'umount {place.hidden}; cat {place.hidden}/secret'"
    )
    finished = await wrapped.run(shell(command))
    assert "the secret" not in finished.stdout


async def test_the_disk_cannot_be_made_writable_again(wrapped, shell, place) -> None:
    attempt = f"mount -o remount,bind,rw /; mount -o remount,rw /; touch {place.outside}/there"
    await wrapped.run(shell(f"{attempt}; unshare -Urm sh -c '{attempt}'"))
    assert list(place.outside.iterdir()) == []


async def test_processes_outside_are_out_of_sight_and_reach(wrapped, shell) -> None:
    async with await anyio.open_process(["sleep", "60"]) as victim:
        command = f"[ -e /proc/{victim.pid} ] && echo seen; kill -9 {victim.pid} || echo unreached"
        assert (await wrapped.run(shell(command))).stdout == "unreached\n"
        assert victim.returncode is None
        victim.kill()
    assert (await wrapped.run(shell("kill -9 $PPID; echo $?"))).status.exit_code is not None
    assert (await wrapped.run(shell("echo goes on"))).stdout == "goes on\n"


async def test_what_a_command_leaves_behind_ends_with_it(wrapped, shell, place) -> None:
    with anyio.fail_after(10):
        async with wrapped.supervisor.open(shell("sleep 60 & echo started")) as child:
            assert (await wrapped.finish(child)).stdout == "started\n"
            # Bubblewrap itself may end a moment before the last of its small world.
            while await child.count_left():
                await anyio.lowlevel.checkpoint()


async def test_ending_a_command_ends_its_whole_tree(wrapped, shell, place) -> None:
    os.mkfifo(place.root / "held")
    command = "(exec 3<>held; sleep 60) & trap '' TERM; echo started; while :; do sleep 60; done"
    with anyio.fail_after(10):
        async with wrapped.supervisor.open(shell(command)) as child:
            assert await wrapped.read_line(child.stdout) == "started"
            await child.end(0.1)
            assert await child.count_left() == 0
            await child.wait()
