"""The resident launcher: it confines itself once, and from then on only starts and ends children.

It is single-threaded and never waits for anything but its own poll. It is the subreaper of all it
starts. When the worker or the nursery goes away, it ends everything and itself.
"""

from __future__ import annotations

import errno
import os
import select
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine import call_filter, hardening, landlock
from moorage.confine.nursery import in_terminal, tree, warden
from moorage.confine.nursery.families import EVERYONE, Ending, Families, Sight, of_call
from moorage.confine.nursery.keeping import Keeping
from moorage.confine.nursery.messages import Kind, Message
from moorage.confine.nursery.tree import MARKER
from moorage.confine.plan import parse_mounts, rules
from moorage.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from moorage.confine.nursery.channel import Channel
    from moorage.confine.plan import Mount, Plan

TICK_MS = 10
"""How often an ending family is looked at; the end of a direct child wakes the launcher anyway."""

WAKEUP_BYTES = 4096
"""Any number of wake-ups is taken in one read."""

MOST_REAPED = 256
"""Children collected in a row: where they end faster than that, other things must go on as well."""

MOST_BATCHES = 64
"""Batches collected before a look: what awaits collection makes looks slow, and they more of it."""

CHASES = 10
CHASE_SECONDS = 0.02
"""Chases in a row after what outruns SIGKILL: more gain nothing where many outrun it at once."""

HANG_UP_MS = 200
"""How long after the nursery a worker that was killed may still seem to be there."""

LOST_KILL_SECONDS = 5.0
"""How long to go on killing when nobody waits for an answer."""

Guard = Callable[[str, int], None]


class Reaped(NamedTuple):
    """The children that were collected (pid and wait status), and whether any others are left."""

    ended: list[tuple[int, int]]
    has_more: bool


def reap() -> Reaped:
    """Collect every child that has ended, at most ``MOST_REAPED``."""
    ended: list[tuple[int, int]] = []
    while len(ended) < MOST_REAPED:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return Reaped(ended, has_more=False)
        if pid == 0:
            break
        ended.append((pid, status))
    return Reaped(ended, has_more=True)


def confine(plan: Plan, found_abi: int, *, last: int | None = None) -> Message:
    """Confine this process to its plan and return what to tell the worker.

    ``last`` is the pid of whoever will end after everything of this launcher, by default its own.
    """
    try:
        hardening.become_subreaper()
        if not plan.mode.is_restricted:
            identities = tuple(landlock.identity(path) for path in plan.granted_paths)
        else:
            grants = rules(plan, _names_in, _mounts())
            hardening.drop_capabilities()
            hardening.forbid_new_privileges()
            call_filter.filter_calls()
            identities = landlock.restrict(plan, grants, found_abi=found_abi)
            hardening.forbid_inspection()
    except ExecutionError as error:
        return _unavailable(error.message, error.hint)
    except OSError as error:
        return _unavailable(f"The kernel refused to confine commands: {error}. Nothing ran.", "")
    numbers = [number for identity in identities for number in identity]
    return Message(Kind.READY, numbers=(last or os.getpid(), *numbers))


def sight_of(plan: Plan, found_abi: int, parent: int) -> Sight:
    """Return how a launcher that has confined itself reaches what it started.

    Everybody at one blow only where the kernel surely keeps its signals inside.
    """
    if warden.is_possible(plan, found_abi) and tree.is_parent_out_of_reach(parent):
        return Sight(kill_all=tree.kill_all)
    return Sight()


def guard_nothing(terminal: str, held: int) -> None:
    """Stand in for a guard where terminals are open to everybody, or to nobody."""


def guard_of(plan: Plan, found_abi: int) -> Guard:
    """Return how a launcher closes every terminal but one to a program: by path, and held open."""
    if not (plan.terminals and plan.mode.is_restricted):
        return guard_nothing
    return lambda terminal, held: landlock.restrict_to_terminal(
        terminal, held, _names_in, found_abi
    )


def _mounts() -> tuple[Mount, ...]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return parse_mounts(file.read())


def _names_in(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _unavailable(message: str, hint: str) -> Message:
    return Message(Kind.UNAVAILABLE, texts=((message.encode(), hint.encode()),))


class Launcher:
    """The loop between one worker and the children of one plan."""

    def __init__(
        self,
        channel: Channel,
        *,
        lifeline: int,
        wakeup: int,
        families: Families,
        reaper: Callable[[], Reaped] = reap,
        guard: Guard = guard_nothing,
    ) -> None:
        """Serve ``channel`` until it, or the nursery's ``lifeline``, ends.

        ``wakeup`` becomes readable when a child has ended; ``guard`` closes every terminal but one
        to the process that calls it.
        """
        self._channel = channel
        self._lifeline = lifeline
        self._wakeup = wakeup
        self._families = families
        self._reaper = reaper
        self._guard = guard
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._base: dict[bytes, bytes] = {}
        self._endings: list[Ending] = []
        self._keeping = Keeping()
        self._programs: dict[tuple[bytes, bytes], bytes] = {}
        self._unsent: deque[Message] = deque()
        self._is_connected = True
        self._is_waiting_to_send = False
        self._is_behind = False
        self._is_over = False

    def run(self) -> None:
        """Serve until everything has ended."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.register(self._lifeline, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        try:
            while not self._is_over or self._unsent:
                self._turn(poll)
        finally:
            self._keeping.close()
            os.close(self._null)
            self._channel.close()

    def _turn(self, poll: select.poll) -> None:
        if self._unsent:
            self._flush(poll)
        if self._is_over and not self._unsent:
            return
        patience = 0 if self._is_behind else TICK_MS if self._endings else None
        ready = dict(poll.poll(patience))
        if self._wakeup in ready:
            os.read(self._wakeup, WAKEUP_BYTES)
        if self._wakeup in ready or self._is_behind:
            self._collect()
        if self._is_connected:
            self._listen(ready, poll)
        else:
            self._keeping.pump(ready, poll)
        if self._endings:
            self._go_on_ending()
        if not (self._is_connected or self._endings or self._families.has_any()):
            self._is_over = True

    def _listen(self, ready: dict[int, int], poll: select.poll) -> None:
        told = ready.get(self._channel.fileno(), 0)
        if self._lifeline in ready:
            # A worker that only lost the nursery takes everything here for ended.
            self._lose(poll, may_keep=self._take_last_orders())
        elif told and not self._receive():
            self._lose(poll, may_keep=True)

    # What comes in.

    def _take_last_orders(self) -> bool:
        """Return whether the worker is gone, after all that it had said before was done.

        One that is killed closes its files one after another, so the nursery may be faster.
        """
        hang_up = select.poll()
        hang_up.register(self._channel, 0)
        if not hang_up.poll(HANG_UP_MS):
            return False
        while self._receive():
            pass
        return True

    def _receive(self) -> bool:
        """Handle one message; ``False`` when the worker is gone.

        One at a time, so that the end of a child is told between two starts.
        """
        try:
            received = self._channel.receive()
        except BlockingIOError:
            return True
        if received is None:
            return False
        message, descriptors = received
        try:
            self._handle(message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _handle(self, message: Message, descriptors: Sequence[int]) -> None:
        match message.kind:
            case Kind.SPAWN:
                self._spawn(message, descriptors)
            case Kind.BASE:
                self._base = dict(_variables(message.texts[0]))
            case Kind.KEEP:
                self._keeping.keep(message.call, descriptors)
            case Kind.COUNT | Kind.SIGNAL:
                self._look(message)
            case Kind.END:
                self._begin_ending(message.call, message.numbers)
            case Kind.CLOSE:
                self._begin_ending(EVERYONE, message.numbers)
            case _:
                raise AssertionError(message.kind)

    def _look(self, message: Message) -> None:
        """Count the members of a family, or signal them."""
        family = of_call(self._families.members(), message.call)
        if message.kind is Kind.COUNT:
            self._tell(Kind.COUNTED, message.call, len(family))
            return
        for process in family:
            self._families.sight.send_signal(process, message.numbers[0])

    # Starting.

    def _spawn(self, message: Message, descriptors: Sequence[int]) -> None:
        try:
            pid = self._start(message, descriptors)
        except OSError as error:
            # The name of a directory that came as a descriptor stands beside it.
            named = error.filename if isinstance(error.filename, (str, bytes)) else None
            what = os.fsencode(named or message.texts[2][0])
            self.tell(
                Message(Kind.NOT_STARTED, message.call, (error.errno or errno.EIO,), ((what,),))
            )
            return
        self._families.add(message.call, pid)
        self._tell(Kind.STARTED, message.call, pid)

    def _start(self, message: Message, descriptors: Sequence[int]) -> int:
        argv, additions, (cwd, *terminal) = message.texts
        has_cwd, has_stdin = message.numbers
        stdout, stderr, *more = descriptors
        variables = {**self._base, **dict(_variables(additions))}
        variables[MARKER[:-1]] = self._families.marker(message.call)
        os.chdir(more[0] if has_cwd else cwd or b"/")
        program = self._find(argv[0], variables.get(b"PATH", os.defpath.encode()))
        if terminal:
            guard = partial(self._guard, os.fsdecode(terminal[0]), stdout)
            return in_terminal.start(program, argv, variables, stdout, guard)
        stdin = more[-1] if has_stdin else self._null
        return os.posix_spawn(
            program,
            argv,
            variables,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=in_terminal.RESET_SIGNALS,
        )

    def _find(self, name: bytes, path: bytes) -> bytes:
        """Return where a program lies; it is looked up again when it is no longer there."""
        found = self._programs.get((name, path), b"")
        if not (found and os.access(found, os.X_OK)):
            found = self._programs[name, path] = _find_program(name, path)
        return found

    # Ending.

    def _collect(self) -> None:
        ended, has_more = self._reaper()
        self._is_behind = len(ended) >= MOST_REAPED
        finished = [
            (call, status)
            for pid, status in ended
            if (call := self._families.program_ended(pid)) is not None
        ]
        # What a program leaves comes to the launcher before the program can be collected.
        has_orphans = has_more and bool(finished) and self._families.may_have_orphans()
        for call, status in finished:
            if not has_orphans:
                self._families.forget(call)
            # A kept call stays so: the worker may not have taken yet what it printed last.
            if not self._is_connected and has_orphans and call in self._keeping.calls:
                # Nobody else would ever end what it leaves.
                self._begin_ending(call, (0, int(LOST_KILL_SECONDS * 1000)))
            self._tell(Kind.EXITED, call, status, int(has_orphans))

    def _catch_up(self) -> None:
        """Collect all that has ended, before a look at what has not."""
        for _ in range(MOST_BATCHES):
            self._collect()
            if not self._is_behind:
                return

    def _begin_ending(self, call: int, numbers: Sequence[int]) -> None:
        grace, kill = (milliseconds / 1000 for milliseconds in numbers)
        now = self._families.sight.now()
        self._endings.append(Ending(call, now=now, grace=grace, kill=kill))

    def _go_on_ending(self) -> None:
        """Take every ending one step further, all with the same look at the process table."""
        self._catch_up()
        members = self._families.members([ending.call for ending in self._endings])
        waiting: list[Ending] = []
        for ending in self._endings:
            family = of_call(members, ending.call)
            if not ending.is_over(family, self._families.sight):
                waiting.append(ending)
            elif ending.call == EVERYONE:
                self._tell(Kind.CLOSED, EVERYONE, len(family))
                self._is_over = True
            else:
                self._tell(Kind.ENDED, ending.call, len(family))
        self._endings = waiting
        if outrun := [ending.call for ending in waiting if ending.is_outrun]:
            self._chase(outrun)

    def _chase(self, outrun: Sequence[int]) -> None:
        now = self._families.sight.now
        stop_at = now() + CHASE_SECONDS
        for _ in range(CHASES):
            self._catch_up()
            self._families.chase(outrun)
            if now() >= stop_at:
                return

    def _lose(self, poll: select.poll, *, may_keep: bool) -> None:
        """Worker or nursery is gone: end all that is not kept, and tell nobody how it ended.

        A worker that only lost the nursery must not take our SIGKILL for the program's own end.
        """
        poll.unregister(self._lifeline)
        poll.unregister(self._channel)
        self._is_connected = False
        self._catch_up()
        kept = self._families.living(self._keeping.calls) if may_keep else []
        if kept:
            self._keeping.take_over(poll)
        for call in self._families.others(kept) if kept else [EVERYONE]:
            self._begin_ending(call, (0, int(LOST_KILL_SECONDS * 1000)))

    # What goes out.

    def _tell(self, kind: Kind, call: int, *numbers: int) -> None:
        self._unsent.append(Message(kind, call, numbers))

    def tell(self, message: Message) -> None:
        """Put a message in line."""
        self._unsent.append(message)

    def _flush(self, poll: select.poll) -> None:
        try:
            while self._unsent and self._is_connected:
                if not self._channel.try_send(self._unsent[0]):
                    poll.modify(self._channel, select.POLLIN | select.POLLOUT)
                    self._is_waiting_to_send = True
                    return
                self._unsent.popleft()
        except OSError:
            # The worker is gone; the reading side says so in the next turn.
            pass
        self._unsent.clear()
        if self._is_waiting_to_send and self._is_connected:
            poll.modify(self._channel, select.POLLIN)
            self._is_waiting_to_send = False


def _variables(entries: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for entry in entries:
        name, _, value = entry.partition(b"=")
        yield name, value


def _find_program(name: bytes, path: bytes) -> bytes:
    """Return the program's path: as it is, or looked up in the child's own PATH."""
    if b"/" in name:
        return name
    for folder in path.split(b":"):
        candidate = os.path.join(folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(name))
