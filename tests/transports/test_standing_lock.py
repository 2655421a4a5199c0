"""The lock that says which process stays: taken once, seen from outside, gone with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.transports import standing_lock

HOLD = """
import os, sys
from pathlib import Path
from moorage.transports import standing_lock
held = standing_lock.take(Path(sys.argv[1]))
# A child does not inherit it.
pid = os.fork()
if not pid:
    os.read(0, 1)
    os._exit(0)
print("no" if held is None else pid, flush=True)
os.read(0, 1)
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of ``tmp_path`` and has a child."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        yield process
        process.kill()


def test_nobody_holds_a_lock_that_was_never_taken(tmp_path: Path) -> None:
    assert standing_lock.holder(tmp_path) is None
    lock = standing_lock.take(tmp_path)
    assert lock is not None
    os.close(lock)
    assert standing_lock.holder(tmp_path) is None


def test_it_has_one_holder_whose_process_is_known(
    tmp_path: Path, held: subprocess.Popen[bytes]
) -> None:
    assert standing_lock.holder(tmp_path) == held.pid
    assert standing_lock.take(tmp_path) is None


def test_it_goes_with_a_killed_process_though_a_child_remains(
    tmp_path: Path, held: subprocess.Popen[bytes]
) -> None:
    os.kill(held.pid, signal.SIGKILL)
    held.wait(timeout=10)
    assert standing_lock.holder(tmp_path) is None
    lock = standing_lock.take(tmp_path)
    assert lock is not None
    os.close(lock)
