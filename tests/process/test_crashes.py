"""What is left when a whole worker is killed: nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process

pytestmark = pytest.mark.needs("landlock")

WORKER = Path(__file__).parent / "a_worker.py"


@pytest.mark.parametrize("mode", ["standard", "unconfined"])
@pytest.mark.parametrize("group", [False, True], ids=["the worker", "its whole group"])
async def test_a_killed_worker_leaves_nothing_behind(tmp_path, mode, group) -> None:
    (tmp_path / "temporary" / "a" / "b").mkdir(parents=True)
    (tmp_path / "temporary" / "a" / "file").touch()
    argv = [sys.executable, str(WORKER), mode, str(tmp_path)]
    with anyio.fail_after(20):
        async with await anyio.open_process(argv, start_new_session=True, stderr=None) as worker:
            pids = await read_pids(worker)
            handles = [os.pidfd_open(pid) for pid in pids]
            if group:
                os.killpg(worker.pid, signal.SIGKILL)
            else:
                worker.kill()
            await worker.wait()
            for handle in handles:
                await anyio.wait_readable(handle)
                os.close(handle)
    assert list(tmp_path.iterdir()) == []


ROLES = ("nursery", "left", "shell", "launcher")


@pytest.mark.parametrize(
    ("killed", "gone"),
    [("nursery", ["left", "shell", "launcher"]), ("launcher", ["left", "shell"])],
)
async def test_a_worker_that_loses_a_part_ends_what_that_part_held(
    tmp_path, hand, killed, gone
) -> None:
    argv = [sys.executable, str(WORKER), "standard", str(tmp_path)]
    with anyio.fail_after(20):
        async with await anyio.open_process(argv, start_new_session=True, stderr=None) as worker:
            pids = dict(zip(ROLES, await read_pids(worker), strict=True))
            os.kill(pids[killed], signal.SIGKILL)
            for role in gone:
                await hand.await_end(pids[role])
            assert worker.returncode is None
            worker.kill()


async def read_pids(worker: Process) -> list[int]:
    assert worker.stdout is not None
    said = b""
    while not said.endswith(b"\n"):
        said += await worker.stdout.receive()
    return [int(word) for word in said.split()]
