"""A tree of processes that do not want to end."""

from __future__ import annotations

import dataclasses

import psutil

from moorage.host.session import Session

SIZE = 50
"""The shell on top, and 49 below it."""

# Everything ignores SIGTERM. A third stays in the group, a third has a session of its own, and a
# third has lost its parent, too. The shell hears of no end: it waits for one that never comes.
_ONE = "trap '' TERM HUP; echo pid $BASHPID; exec sleep 3600"
SCRIPT = f"""
trap '' TERM HUP
echo pid $$
for number in $(seq {SIZE - 1}); do
  case $((number % 3)) in
    0) ( {_ONE} ) & ;;
    1) setsid bash -c "{_ONE.replace("$", chr(92) + "$")}" & ;;
    2) ( setsid bash -c "{_ONE.replace("$", chr(92) + "$")}" & ) ;;
  esac
done
wait
"""


@dataclasses.dataclass(frozen=True)
class Tree:
    """A tree that stands: its id as a background process, and its processes."""

    id: str
    processes: tuple[psutil.Process, ...]

    def left(self) -> list[int]:
        """Return who is still alive; psutil knows a process by its start, too."""
        return [each.pid for each in self.processes if _is_alive(each)]


async def stubborn_tree(session: Session) -> Tree:
    """Start a tree and wait until all of it stands."""
    record = await session.processes.start(SCRIPT, tty=False)
    text, offset = "", 0
    while text.count("\n") < SIZE:
        window = await session.processes.read(record.id, offset=offset, wait_seconds=30)
        if window.process.is_terminal:
            raise RuntimeError(f"the tree fell by itself: {text + window.output}")
        text, offset = text + window.output, window.end_offset
    pids = [int(line.removeprefix("pid ")) for line in text.splitlines()]
    return Tree(record.id, tuple(psutil.Process(pid) for pid in pids))


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
