"""Who descends from whom: the process table, and signals that never reach a stranger."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARKER = b"MOORAGE_CALL="
"""The variable that every child carries; it finds those that left their group and session."""


class Process(NamedTuple):
    """One line of the process table; ``started`` (in ticks since boot) tells reused pids apart."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Return whether it still runs: one that only awaits collection does not."""
        return self.state not in "ZX"


Table = dict[int, Process]


def snapshot() -> Table:
    """Return every process that can be seen now."""
    table: Table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = look_at(int(name))
            if process is not None:
                table[process.pid] = process
    return table


def look_at(pid: int) -> Process | None:
    """Return the process with this pid, or ``None`` when there is none."""
    content = _read(f"/proc/{pid}/stat")
    return parse_stat(content) if content else None


def parse_stat(content: bytes) -> Process:
    """Return the process that one line of ``/proc/<pid>/stat`` describes.

    The name in it is free text with spaces and brackets; what follows its last bracket is not.
    """
    head, _, tail = content.rpartition(b")")
    fields = tail.split()
    return Process(
        pid=int(head.split(b" ", 1)[0]),
        state=chr(fields[0][0]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


UNSEEN = -1
"""The start of a process that no look at the table has shown."""


def unseen(pid: int, parent: int) -> Process:
    """Return a child of which nothing is known but that it has not been collected."""
    return Process(pid, "?", parent, 0, 0, UNSEEN)


def by_parent(table: Table) -> dict[int, list[Process]]:
    """Return the table as children of each parent."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    return children


def with_descendants(top: Process, children: dict[int, list[Process]]) -> Iterator[Process]:
    """Yield a process and everything beneath it."""
    waiting = [top]
    seen = {top.pid}
    while waiting:
        process = waiting.pop()
        yield process
        for child in children.get(process.pid, ()):
            if child.pid not in seen:
                seen.add(child.pid)
                waiting.append(child)


def has_programs(worker: int) -> bool:
    """Return whether below a worker anything lives but what it forked of itself to start it."""
    children = by_parent(snapshot())
    own = _read(f"/proc/{worker}/cmdline")
    return any(
        process.is_alive and _read(f"/proc/{process.pid}/cmdline") != own
        for top in children.get(worker, ())
        for process in with_descendants(top, children)
    )


def marker_of(pid: int) -> bytes:
    """Return the value of the marker variable that a process was started with; empty if none."""
    environment = b"\0" + _read(f"/proc/{pid}/environ")
    _, found, rest = environment.partition(b"\0" + MARKER)
    return rest.partition(b"\0")[0] if found else b""


def children_of(pid: int) -> set[int]:
    """Return the children of a single-threaded process, those that await collection included."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb", buffering=0) as file:
            return {int(child) for child in file.read().split()}
    except OSError:
        # A kernel built without this file: look at everybody instead.
        return {process.pid for process in snapshot().values() if process.parent == pid}


def send_signal(process: Process, number: int) -> bool:
    """Signal exactly this process; ``False`` when it is gone or out of reach.

    A pid of 1 or less is never signalled, and a reused one is told apart by its start.
    """
    if process.pid <= 1:
        return False
    if process.started == UNSEEN:
        return send_to_child(process.pid, number)
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        # The handle holds the pid's owner fast, so what is looked at now is what gets the signal.
        now = look_at(process.pid)
        if now is None or now.started != process.started:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def send_to_child(pid: int, number: int) -> bool:
    """Signal a child of this process; its pid is its own until this process collects it."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def is_parent_out_of_reach(parent: int) -> bool:
    """Return whether the kernel keeps this process from signalling its parent.

    Both have the same user, so nothing but a closed signal scope can be the reason.
    """
    try:
        os.kill(parent, 0)
    except PermissionError:
        return os.getppid() == parent
    except OSError:
        pass
    return False


def kill_all() -> None:
    """Kill everybody that this process may signal: only for one in a proven signal scope.

    The kernel visits all at one instant, so nobody escapes by forking meanwhile. Its answer does
    not tell whether anybody was hit.
    """
    with suppress(OSError):
        os.kill(-1, signal.SIGKILL)


def kill_nobody() -> None:
    """Stand in for ``kill_all`` where strangers may be signalled, too."""


def send_signals(processes: Iterable[Process], number: int) -> None:
    """Signal each of these processes."""
    for process in processes:
        send_signal(process, number)


def _read(path: str) -> bytes:
    """Return a file of ``/proc``; empty when its process is gone or not ours to read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
