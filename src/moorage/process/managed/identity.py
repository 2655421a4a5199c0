"""Which process a pid meant: by the boot of the machine and the tick at which it started."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from moorage.confine.nursery import tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from moorage.confine.nursery.tree import Process

_SCHEME = "linux-v1"


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return what tells this boot of the machine from every other."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def identity_of(pid: int, look_at: Callable[[int], Process | None] = tree.look_at) -> str:
    """Return the identity of a process, or nothing when there is none with this pid."""
    found = look_at(pid)
    return f"{_SCHEME}:{boot_id()}:{found.started}" if found is not None else ""


def find(
    pid: int,
    group: int,
    identity: str,
    look_at: Callable[[int], Process | None] = tree.look_at,
) -> Process | None:
    """Return the process that a record means, or ``None`` when it cannot be proven to live.

    A pid or group of 1 or less means nobody.
    """
    if pid <= 1 or group <= 1 or not identity:
        return None
    found = look_at(pid)
    if found is None or not found.is_alive or found.group != group:
        return None
    return found if identity == f"{_SCHEME}:{boot_id()}:{found.started}" else None
