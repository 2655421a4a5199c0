"""The process table, read without the help of what is under torture."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")


@dataclasses.dataclass(frozen=True)
class Sighting:
    """One process as the kernel shows it; ``started`` is in ticks since boot."""

    pid: int
    state: str
    started: int
    parent: int = 0
    words: str = ""

    @property
    def is_alive(self) -> bool:
        """Return whether it runs or sleeps: it is neither ended nor halted."""
        return self.state not in "ZXTt"


def look_at(pid: int) -> Sighting | None:
    """Return one process, or ``None`` when there is none with this pid."""
    with suppress(OSError):
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        words = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        text = words.decode("utf-8", "replace").strip()
        return Sighting(pid, fields[0].decode(), int(fields[19]), int(fields[1]), text)
    return None


def children(pid: int) -> list[Sighting]:
    """Return the children of a process."""
    seen = (look_at(int(name)) for name in os.listdir(PROC) if name.isdigit())  # noqa: PTH208
    return [each for each in seen if each is not None and each.parent == pid]


def marked(token: str, apart_from: Collection[int] = ()) -> list[Sighting]:
    """Return every process that has the token in its arguments or its environment."""
    found = []
    for name in os.listdir(PROC):  # noqa: PTH208 - names, not paths
        if not name.isdigit() or int(name) in apart_from:
            continue
        if _carries(PROC / name, token.encode()):
            seen = look_at(int(name))
            if seen is not None and seen.state not in "ZX":
                found.append(seen)
    return found


def end(left: Iterable[Sighting]) -> None:
    """Kill processes that were found by their mark, unless a pid means another one by now."""
    for each in left:
        with suppress(OSError):
            handle = os.pidfd_open(each.pid)
            try:
                now = look_at(each.pid)
                if now is not None and now.started == each.started:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


def _carries(folder: Path, token: bytes) -> bool:
    for name in ("cmdline", "environ"):
        with suppress(OSError):
            if token in (folder / name).read_bytes():
                return True
    return False
