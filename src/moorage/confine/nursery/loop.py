"""The nursery itself: it forks one launcher per plan, outlives them, and ends what they leave.

It needs the standard library only and has one thread. It is the subreaper above its launchers, so
what a lost launcher leaves behind comes here; and when the worker goes away, it ends everything.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from moorage.confine import hardening
from moorage.confine.nursery import tree, warden
from moorage.confine.nursery.channel import Channel
from moorage.confine.nursery.families import Families, Sight
from moorage.confine.nursery.launcher import (
    WAKEUP_BYTES,
    Launcher,
    confine,
    guard_of,
    sight_of,
)
from moorage.confine.nursery.messages import Kind, Message, decode_texts, plan_from_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

TICK_MS = 10
"""How often the leavings of a lost launcher are looked at until none are left."""

SWEEP_SECONDS = 5.0
"""How long the nursery goes on killing after the worker went away."""

MOST_BURIED = 16 * 1024
"""Processes collected in a row: where they end faster than that, they must also be killed."""

ALL_GONE = b"."
"""What a tombstone says when nothing of its launcher is left."""


def become_nursery(descriptor: int, remove: Callable[[str], None]) -> NoReturn:
    """Turn this freshly forked process into the nursery."""
    status = 1
    try:
        gc.disable()
        # A session of its own: whoever ends the worker's group must not end those who clean up.
        os.setsid()
        (channel,) = keep_descriptors(descriptor)
        hardening.set_name("moorage-nursery")
        hardening.become_subreaper()
        nursery = NurseryLoop(Channel.of(channel), wakeup=prepare_signals())
        nursery.run()
        nursery.remove_folders(remove)
        status = 0
    finally:
        os._exit(status)


def become_launcher(order: Message, channel: int, lifeline: int, parent: int) -> NoReturn:
    """Turn this freshly forked process into a launcher, or into the warden of one."""
    status = 1
    try:
        channel, lifeline = keep_descriptors(channel, lifeline)
        (nonce,), *texts = order.texts
        plan, found_abi = plan_from_texts(tuple(texts)), order.numbers[0]
        last = os.getpid()
        if warden.is_possible(plan, found_abi) and warden.become_warden(parent, found_abi):
            pid = os.fork()
            if pid != 0:
                keep_descriptors()
                warden.watch(pid)
                os._exit(0)
            parent = last
        hardening.set_name("moorage-launch")
        wakeup = prepare_signals()
        ready = confine(plan, found_abi, last=last)
        sight = sight_of(plan, found_abi, parent) if ready.kind is Kind.READY else Sight()
        launcher = Launcher(
            Channel.of(channel),
            lifeline=lifeline,
            wakeup=wakeup,
            families=Families(nonce, sight=sight),
            guard=guard_of(plan, found_abi),
        )
        launcher.tell(ready)
        launcher.run()
        status = 0
    finally:
        os._exit(status)


def keep_descriptors(*kept: int) -> tuple[int, ...]:
    """Close every descriptor but these, and point the standard streams at the null device."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    # Above the standard streams, should one of these have been closed when ``kept`` was opened.
    held = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in kept)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    start = 3
    for descriptor in sorted(held):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
    return held


def prepare_signals() -> int:
    """Ignore what a terminal or a service manager sends; return what the end of a child wakes.

    The nursery and its launchers end when their channels end, and not before.
    """
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGCHLD, warden.END_SIGNAL):
        signal.signal(number, signal.SIG_DFL)
    return hardening.open_child_events()


def fork_launcher(order: Message, channel: int, lifeline: int) -> int:
    """Fork a launcher and return its pid, or that of its warden."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        become_launcher(order, channel, lifeline, parent)
    return pid


def reap() -> Iterator[tuple[int, int]]:
    """Collect every launcher or orphan that ended or stopped; yields pid and wait status."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


class NurseryLoop:
    """The loop of the nursery: forks launchers, buries them, and ends what they left behind."""

    def __init__(
        self,
        channel: Channel,
        *,
        wakeup: int,
        fork: Callable[[Message, int, int], int] = fork_launcher,
        reaper: Callable[[], Iterator[tuple[int, int]]] = reap,
        sight: Sight | None = None,
    ) -> None:
        """Serve ``channel`` until it ends; ``wakeup`` becomes readable when a child has ended."""
        self._channel = channel
        self._wakeup = wakeup
        self._fork = fork
        self._reaper = reaper
        self._sight = sight or Sight()
        # Launchers hold the reading end: it ends with the nursery, and they with it.
        self._lifeline, self._lifeline_held = os.pipe2(os.O_CLOEXEC)
        self._launchers: dict[int, tuple[int, int]] = {}  # pid -> number, tombstone
        self._tombstones: list[int] = []  # of launchers that ended, until their leavings have
        self._give_up_at: float | None = None
        self._spared: set[int] = set()  # numbers of launchers that end by themselves
        self._left: set[int] = set()  # pids of those, once the worker is gone
        self._folders: list[str] = []  # to be removed when the worker is gone

    def run(self) -> None:
        """Serve until the worker is gone and nothing is left."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        try:
            while not self._is_over():
                self._turn(poll)
        finally:
            for descriptor in (self._lifeline, self._lifeline_held, *self._tombstones):
                os.close(descriptor)
            self._channel.close()

    def remove_folders(self, remove: Callable[[str], None]) -> None:
        """Remove what the worker would have removed; mostly it has."""
        for folder in self._folders:
            with suppress(OSError):
                remove(folder)

    def _is_over(self) -> bool:
        if self._give_up_at is None:
            return False
        is_clean = not self._launchers and not self._tombstones and not self._has_orphans()
        return is_clean or self._sight.now() >= self._give_up_at

    def _turn(self, poll: select.poll) -> None:
        is_busy = bool(self._tombstones) or self._give_up_at is not None
        ready = {fd for fd, _ in poll.poll(TICK_MS if is_busy else None)}
        if self._wakeup in ready:
            os.read(self._wakeup, WAKEUP_BYTES)
        self._bury()
        if self._channel.fileno() in ready and not self._receive():
            poll.unregister(self._channel)
            self._give_up_at = self._sight.now() + SWEEP_SECONDS
            for pid, (number, tombstone) in list(self._launchers.items()):
                if number in self._spared:
                    del self._launchers[pid]
                    os.close(tombstone)
                    self._left.add(pid)
                else:
                    os.kill(pid, warden.END_SIGNAL)

    def _receive(self) -> bool:
        """Handle one message; ``False`` when the worker is gone."""
        received = self._channel.receive()
        if received is None:
            return False
        message, descriptors = received
        match message.kind:
            case Kind.LAUNCH:
                self._launch(message, *descriptors)
            case Kind.KILL:
                for pid, (number, _) in self._launchers.items():
                    if number == message.call:
                        os.kill(pid, warden.END_SIGNAL)
            case Kind.SPARE:
                self._spared.add(message.call)
            case Kind.REMOVE:
                self._folders += decode_texts(message.texts[0])
            case _:
                raise AssertionError(message.kind)
        return True

    def _launch(self, order: Message, channel: int, tombstone: int) -> None:
        try:
            pid = self._fork(order, channel, self._lifeline)
        except OSError:
            # No process to be had: the worker sees the channel end before its launcher is ready.
            os.close(tombstone)
        else:
            self._launchers[pid] = order.call, tombstone
        os.close(channel)

    def _bury(self) -> None:
        """Collect what ended, end what it left behind, and tell by closing its tombstone."""
        for pid, status in islice(self._reaper(), MOST_BURIED):
            if os.WIFSTOPPED(status):
                # A command may stop its launcher (kill -STOP -1); the worker must not hang on it.
                if pid in self._launchers:
                    os.kill(pid, signal.SIGCONT)
            elif pid in self._launchers:
                self._tombstones.append(self._launchers.pop(pid)[1])
        if not self._tombstones and self._give_up_at is None:
            return
        if self._has_orphans():
            self._sweep()
            return
        while self._tombstones:
            tombstone = self._tombstones.pop()
            with suppress(OSError):  # The worker may have stopped looking.
                os.write(tombstone, ALL_GONE)
            os.close(tombstone)

    def _has_orphans(self) -> bool:
        return bool(self._orphans())

    def _orphans(self) -> set[int]:
        return self._sight.children_of(os.getpid()) - self._launchers.keys() - self._left

    def _sweep(self) -> None:
        children = tree.by_parent(self._sight.snapshot())
        for pid in self._orphans():
            # First those who may fork and end before anybody has looked at them.
            orphan = tree.unseen(pid, os.getpid())
            for process in tree.with_descendants(orphan, children):
                self._sight.send_signal(process, signal.SIGKILL)
