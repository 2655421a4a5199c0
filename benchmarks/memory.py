"""Memory of live processes, as the kernel accounts for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

PROC = Path("/proc")


def worker_pid() -> int:
    """Return the process id of the one worker that this process started."""
    (pid,) = [
        child.pid
        for child in psutil.Process().children()
        if any("moorage" in word and "worker" in word for word in child.cmdline())
    ]
    return int(pid)


def with_descendants(pid: int) -> list[int]:
    """Return ``pid`` and everything below it: nursery and launchers for a worker at rest."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def proportional_bytes(pid: int) -> int:
    """Return the proportional set size: private pages plus a fair share of the shared ones."""
    return sum(_fields(PROC / str(pid) / "smaps_rollup", "Pss:"))


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used itself."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


class Growth:
    """How far the resident memory of a process rises above where it began, at its highest."""

    def __init__(self, pid: int) -> None:
        """Note where the process stands and ask the kernel to begin a new high-water mark."""
        self._status = PROC / str(pid) / "status"
        # "5" resets the peak of the resident set; see proc(5).
        (PROC / str(pid) / "clear_refs").write_text("5")
        self._before = self._read("VmRSS:")

    def peak_bytes(self) -> int:
        """Return the highest rise so far."""
        return max(0, self._read("VmHWM:") - self._before)

    def _read(self, name: str) -> int:
        return sum(_fields(self._status, name))


def own_growth() -> Growth:
    """Return the growth of this process, the host."""
    return Growth(os.getpid())


def _fields(path: Path, name: str) -> Iterator[int]:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            yield int(line.split()[1]) * 1024
