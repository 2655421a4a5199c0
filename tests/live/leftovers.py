"""End what a service has started, by process id, and take away its mounts and control groups."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

END_SECONDS = 20
ROUNDS = 5
CONTROL_GROUPS = Path("/sys/fs/cgroup")


def end_process(pid: int, number: int = signal.SIGTERM, seconds: float = END_SECONDS) -> None:
    """Ask a process to end, and end it when it has not within ``seconds``."""
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            for each in (number, signal.SIGKILL):
                signal.pidfd_send_signal(process, each)
                if select.select([process], [], [], seconds)[0]:
                    break
        finally:
            os.close(process)


def end_processes(is_ours: Callable[[Path], bool]) -> None:
    """End every process that ``is_ours`` knows by its folder in /proc, and those they start."""
    for _ in range(ROUNDS):
        found = list(_processes(is_ours))
        if not found:
            return
        for pid in found:
            end_process(pid, signal.SIGKILL)


def _processes(is_ours: Callable[[Path], bool]) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        # It may have gone meanwhile; one that is dead already and not yet collected has no command.
        with suppress(OSError):
            if int(folder.name) != os.getpid() and is_ours(folder):
                yield int(folder.name)


def mentions(text: str) -> Callable[[Path], bool]:
    """Return what knows the processes in whose command line ``text`` stands."""
    return lambda folder: text.encode() in (folder / "cmdline").read_bytes()


def is_in_mounts_of(namespace: str) -> Callable[[Path], bool]:
    """Return what knows the processes that see the mounts of one namespace."""
    return lambda folder: os.readlink(folder / "ns" / "mnt") == namespace


def is_in_control_group(name: str) -> Callable[[Path], bool]:
    """Return what knows the processes in a control group and in those below it."""
    return lambda folder: f":/{name}/" in (folder / "cgroup").read_text()


def unmount_below(place: Path) -> None:
    """Take away every mount at ``place`` and below, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    below = [point for point in points if Path(point).is_relative_to(place)]
    for point in reversed(below):
        subprocess.run(["umount", "--lazy", point], check=False, timeout=END_SECONDS)


def remove_control_group(name: str) -> None:
    """Remove an empty control group and those below it, in whichever hierarchies it is."""
    for top in (*CONTROL_GROUPS.glob(name), *CONTROL_GROUPS.glob(f"*/{name}")):
        for folder, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
