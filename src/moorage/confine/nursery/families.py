"""Which of a launcher's descendants belong to which call, and how a call's family is ended."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine.nursery import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from moorage.confine.nursery.tree import Process, Table

EVERYONE = 0
"""The number that stands for all calls of a launcher; calls count from 1."""


MOST_LOOKS = 5
"""Looks at the process table in a row: enough to catch up with anything but a fork bomb."""

MOST_MISSED = 16
"""Children missed at a look, above which another look would miss as many."""

CHASE_LOOKS = 10
"""Looks at the children of the launcher in a row; one takes about 30 microseconds."""

BLOW_SHARE = 0.25
"""Which part of its time a family may outrun SIGKILL before everybody is killed at one blow."""


class Sight(NamedTuple):
    """How the process table is seen and reached; tests look at a part of it."""

    snapshot: Callable[[], Table] = tree.snapshot
    marker_of: Callable[[int], bytes] = tree.marker_of
    send_signal: Callable[[Process, int], bool] = tree.send_signal
    children_of: Callable[[int], set[int]] = tree.children_of
    kill_all: Callable[[], None] = tree.kill_nobody
    """Kills all that the launcher has started, at one blow."""
    now: Callable[[], float] = time.monotonic


class Families:
    """The calls of one launcher and the processes that descend from each."""

    def __init__(self, nonce: bytes, *, sight: Sight | None = None, top: int | None = None) -> None:
        """Watch the descendants of ``top``, by default of this process."""
        self.sight = sight or Sight()
        self._top = top or os.getpid()
        self._nonce = nonce
        self._running: dict[int, int] = {}  # pid of a running program -> call
        self._calls: dict[int, int] = {}  # call -> pid of its program, running or not
        self._owners: dict[tuple[int, int], int] = {}  # orphan (pid, start) -> call

    def marker(self, call: int) -> bytes:
        """Return the value of the marker variable for the children of this call."""
        return b"%s.%d" % (self._nonce, call)

    def add(self, call: int, pid: int) -> None:
        """Note that a call's program runs."""
        self._running[pid] = call
        self._calls[call] = pid

    def program_ended(self, pid: int) -> int | None:
        """Note that a process was collected; return the call whose program it was."""
        return self._running.pop(pid, None)

    def forget(self, call: int) -> None:
        """Drop a call of which nothing is left."""
        self._calls.pop(call, None)

    def pid_of(self, call: int) -> int | None:
        """Return the pid of a call's program while it runs."""
        pid = self._calls.get(call)
        return pid if pid in self._running else None

    def living(self, calls: Collection[int]) -> list[int]:
        """Return those of the calls whose program runs."""
        return [call for call in calls if self.pid_of(call) is not None]

    def others(self, calls: Collection[int]) -> list[int]:
        """Return every known call but these."""
        return [call for call in self._calls if call not in calls]

    def has_any(self) -> bool:
        """Return whether the launcher has any children, those that await collection included."""
        return bool(self.sight.children_of(self._top))

    def may_have_orphans(self) -> bool:
        """Return whether anything but running programs may still be a child of the launcher."""
        return len(self.sight.children_of(self._top)) > len(self._running)

    def members(self, ending: Collection[int] = ()) -> dict[int, list[Process]]:
        """Return every live descendant by call; those of no known call stand under ``EVERYONE``.

        ``ending`` are calls on their way out.
        """
        children = tree.by_parent(self._whole_table())
        found: dict[int, list[Process]] = {}
        owners: dict[tuple[int, int], int] = {}
        for top in children.get(self._top, ()):
            call = self._owner(top, ending)
            owners[top.pid, top.started] = call
            alive = [p for p in tree.with_descendants(top, children) if p.is_alive]
            if alive:
                found.setdefault(call, []).extend(alive)
        # What was not seen again is gone, and with it what was known about it.
        self._owners = {key: call for key, call in owners.items() if call != EVERYONE}
        for call in [call for call, pid in self._calls.items() if pid not in self._running]:
            if call not in found:
                self.forget(call)
        return found

    def chase(self, ending: Collection[int]) -> None:
        """Kill members of these calls as they come to the launcher, without a look at the table.

        Whoever forks and ends is the launcher's child for a moment in between.
        """
        hit: set[int] = set()
        for _ in range(CHASE_LOOKS):
            fresh = self.sight.children_of(self._top) - hit
            hit |= fresh
            for child in (tree.unseen(pid, self._top) for pid in fresh):
                if EVERYONE in ending or self._owner(child, ending) in ending:
                    self.sight.send_signal(child, signal.SIGKILL)

    def _whole_table(self) -> Table:
        """Return the process table, looked at again while it misses children of the launcher.

        It is not read at one instant: a process that forks and ends meanwhile can be seen neither
        itself nor by its child, or as the child of one that is gone. But then it has come to the
        launcher, whose children are told exactly. One that every look misses stands in the table
        all the same: so as long as anything lives, something is seen to live.
        """
        for _ in range(MOST_LOOKS):
            table = self.sight.snapshot()
            children = self.sight.children_of(self._top)
            if not 0 < len(children - table.keys()) <= MOST_MISSED:
                break
        return table | {
            pid: table.get(pid, tree.unseen(pid, self._top))._replace(parent=self._top)
            for pid in children
        }

    def _owner(self, top: Process, ending: Collection[int]) -> int:
        """Return the call that a child of the launcher belongs to.

        A program is known by its pid. An orphan that came here is known by its marker, else by the
        group or session it kept. One that shed all of these belongs to the newest call, one that is
        ending first, then that of a running program: so it cannot outlive the time of the command
        that left it. The marker is the orphan's own word, and counts only where it names a call
        that there is.
        """
        call = self._running.get(top.pid) or self._owners.get((top.pid, top.started))
        if call is not None:
            return call
        nonce, _, number = self.sight.marker_of(top.pid).rpartition(b".")
        if nonce == self._nonce and number.isdigit() and int(number) in self._calls:
            return int(number)
        for call, pid in self._calls.items():
            if pid in {top.group, top.session}:
                return call
        for calls in (ending, self._running.values(), self._calls):
            if calls:
                return max(calls)
        return EVERYONE


class Ending:
    """One family on its way out: SIGTERM, a grace, then SIGKILL until nothing is left.

    Where everything is to end, SIGKILL goes to all at one blow. So it does where one family goes on
    to grow under SIGKILL: nothing else reaches it, and what it costs others is told as their end.
    """

    def __init__(self, call: int, *, now: float, grace: float, kill: float) -> None:
        """Start the clock."""
        self.call = call
        self._kill_at = now + grace
        self._blow_at = now + grace + kill * BLOW_SHARE
        self._give_up_at = now + grace + kill
        self._is_killing = grace <= 0
        self._asked: set[tuple[int, int]] = set()
        self._killed: set[tuple[int, int]] = set()
        self.is_outrun = False
        """Whether it went on to grow under SIGKILL."""

    def is_over(self, members: list[Process], sight: Sight) -> bool:
        """Signal what is left, as the clock says; return whether it ended or time is up."""
        if not members:
            return True
        now = sight.now()
        self._is_killing = self._is_killing or now >= self._kill_at
        if self._is_killing:
            self._kill(members, sight, now)
        else:
            self._ask(members, sight)
        return now >= self._give_up_at

    def _ask(self, members: list[Process], sight: Sight) -> None:
        for process in members:
            if (process.pid, process.started) not in self._asked:
                self._asked.add((process.pid, process.started))
                sight.send_signal(process, signal.SIGTERM)
                # A stopped process hears SIGTERM only once it goes on.
                sight.send_signal(process, signal.SIGCONT)

    def _kill(self, members: list[Process], sight: Sight, now: float) -> None:
        found = {(process.pid, process.started) for process in members}
        self.is_outrun = bool(self._killed) and not found <= self._killed
        self._killed = found
        if self.call == EVERYONE or (self.is_outrun and now >= self._blow_at):
            sight.kill_all()
        for process in members:
            sight.send_signal(process, signal.SIGKILL)


def of_call(members: dict[int, list[Process]], call: int) -> list[Process]:
    """Return the members of one call, or of all."""
    if call == EVERYONE:
        return [process for family in members.values() for process in family]
    return members.get(call, [])
