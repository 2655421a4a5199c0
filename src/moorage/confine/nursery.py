"""The nursery: forked before the worker grows, it forks one launcher per plan and outlives them.

``start_nursery`` is the worker's first act, before anyio or any thread exists. The nursery needs
the standard library only. It is the subreaper above its launchers, so what a lost launcher leaves
behind comes here and is ended here; and when the worker goes away, it ends everything.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from moorage.confine import hardening, landlock, tree
from moorage.confine.channel import Channel
from moorage.confine.families import Families, Sight
from moorage.confine.launcher import WAKEUP_BYTES, Launcher, confine
from moorage.confine.messages import Kind, Message, encode_texts, plan_from_texts, plan_to_texts
from moorage.errors import ProvisionError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from moorage.confine.plan import Plan
    from moorage.confine.provider import ConfinementProvider

IGNORED_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

TICK_MS = 10
"""How often the leavings of a lost launcher are looked at until none are left."""

SWEEP_SECONDS = 5.0
"""How long the nursery goes on killing after the worker went away."""

CLOSE_SECONDS = 2 * SWEEP_SECONDS
"""How long the worker waits for the nursery's own end."""


ALL_GONE = b"."

FIRST_CALL = 1
"""The number of a launcher's first call."""


class Launch(NamedTuple):
    """The worker's hold on one launcher."""

    number: int
    plan: Plan
    nonce: str
    channel: Channel
    tombstone: int
    """Says ``ALL_GONE`` when the launcher and everything it started are; the nursery sees to it.

    It ends without a word when the nursery was lost, too.
    """


class EarlyChild(NamedTuple):
    """A program that was started before the worker could wait for it; a supervisor adopts it."""

    launch: Launch
    stdout: int
    stderr: int


class Nursery:
    """The worker's hold on the nursery process."""

    def __init__(self, pid: int, channel: Channel) -> None:
        """Hold a nursery that was just forked."""
        self.pid = pid
        self._channel = channel
        self._launches = 0
        self._is_closed = False

    def launch(self, plan: Plan, *, found_abi: int | None = None) -> Launch:
        """Have a launcher forked for the plan; its channel says first whether it could confine.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the nursery is gone.
        """
        abi = landlock.abi() if found_abi is None else found_abi
        if plan.mode.is_restricted:
            landlock.require(abi)
        self._launches += 1
        nonce = os.urandom(8).hex()
        channel, theirs = Channel.pair()
        tombstone, held = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(tombstone, False)
        message = Message(
            Kind.LAUNCH,
            self._launches,
            (abi,),
            (encode_texts([nonce]), *plan_to_texts(plan)),
        )
        try:
            self._send(message, (theirs.fileno(), held))
        except BaseException:
            channel.close()
            os.close(tombstone)
            raise
        finally:
            theirs.close()
            os.close(held)
        return Launch(self._launches, plan, nonce, channel, tombstone)

    def begin(
        self,
        plan: Plan,
        argv: Sequence[str],
        variables: Mapping[str, str],
        *,
        cwd: str = "",
        provider: ConfinementProvider | None = None,
    ) -> EarlyChild:
        """Start a program at once, in a launcher of its own, while the worker still grows.

        A ``provider`` confines it in the kernel's place.

        Raises:
            ConfinementUnavailable: the kernel cannot enforce the plan; nothing ran.
            ProvisionError: the nursery is gone.
        """
        if provider is not None and plan.mode.is_restricted:
            argv = provider.wrap(plan, argv)
            plan = plan._replace(mode=PermissionMode.UNCONFINED)
        launch = self.launch(plan)
        stdout, stdout_end = os.pipe2(os.O_CLOEXEC)
        stderr, stderr_end = os.pipe2(os.O_CLOEXEC)
        entries = encode_texts(f"{name}={value}" for name, value in variables.items())
        texts = (encode_texts(argv), entries, encode_texts([cwd]))
        launch.channel.try_send(
            Message(Kind.SPAWN, FIRST_CALL, (0, 0), texts), (stdout_end, stderr_end)
        )
        os.close(stdout_end)
        os.close(stderr_end)
        return EarlyChild(launch, stdout, stderr)

    def kill(self, launch: Launch) -> None:
        """End a launcher that does not answer, with everything it started.

        Raises:
            ProvisionError: the nursery is gone.
        """
        self._send(Message(Kind.KILL, launch.number))

    def _send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        try:
            is_sent = self._channel.try_send(message, descriptors)
        except OSError as error:
            raise ProvisionError(
                "The process that starts commands has ended; nothing ran.",
                hint="Restart the worker.",
            ) from error
        if not is_sent:
            raise ProvisionError(
                "The process that starts commands does not answer; nothing ran.",
                hint="Restart the worker.",
            )

    def close(self) -> None:
        """End the nursery and everything under it; returns when it is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        self._channel.close()
        handle = os.pidfd_open(self.pid)
        if not select.select([handle], [], [], CLOSE_SECONDS)[0]:
            os.kill(self.pid, signal.SIGKILL)
        os.close(handle)
        os.waitpid(self.pid, 0)


def start_nursery() -> Nursery:
    """Fork the nursery; call it before anyio is imported and before any thread exists.

    Raises:
        ProvisionError: this system has no way to hold a tree of processes.
    """
    if sys.platform != "linux":
        raise ProvisionError(
            "Commands can be started on Linux only.",
            hint="Use an environment on a Linux machine, such as a container or SSH.",
        )
    hardening.become_subreaper()
    channel, theirs = Channel.pair()
    # What exists now stays shared between the processes, instead of being copied by the collector.
    gc.freeze()
    # Until the nursery ignores them, what is sent to the worker's group must not end it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
    pid = os.fork()
    if pid == 0:
        _become_nursery(theirs.detach())
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    gc.unfreeze()
    theirs.close()
    return Nursery(pid, channel)


def _become_nursery(descriptor: int) -> NoReturn:
    """Turn this freshly forked process into the nursery."""
    status = 1
    try:
        gc.disable()
        # A session of its own: whoever ends the worker's group must not end those who clean up.
        os.setsid()
        (channel,) = keep_descriptors(descriptor)
        hardening.set_name("moorage-nursery")
        hardening.become_subreaper()
        NurseryLoop(Channel.of(channel), wakeup=prepare_signals()).run()
        status = 0
    finally:
        os._exit(status)


def become_launcher(order: Message, channel: int, lifeline: int) -> NoReturn:
    """Turn this freshly forked process into a launcher."""
    status = 1
    try:
        channel, lifeline = keep_descriptors(channel, lifeline)
        hardening.set_name("moorage-launch")
        wakeup = prepare_signals()
        (nonce,), *plan = order.texts
        ready = confine(plan_from_texts(tuple(plan)), order.numbers[0])
        launcher = Launcher(
            Channel.of(channel), lifeline=lifeline, wakeup=wakeup, families=Families(nonce)
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
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return hardening.open_child_events()


def fork_launcher(order: Message, channel: int, lifeline: int) -> int:
    """Fork a launcher and return its pid."""
    pid = os.fork()
    if pid == 0:
        become_launcher(order, channel, lifeline)
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
            for pid in self._launchers:
                os.kill(pid, signal.SIGKILL)

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
                        os.kill(pid, signal.SIGKILL)
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
        for pid, status in self._reaper():
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
        return bool(self._sight.children_of(os.getpid()) - self._launchers.keys())

    def _sweep(self) -> None:
        children = tree.by_parent(self._sight.snapshot())
        for top in children.get(os.getpid(), ()):
            if top.pid not in self._launchers:
                for process in tree.with_descendants(top, children):
                    self._sight.send_signal(process, signal.SIGKILL)
