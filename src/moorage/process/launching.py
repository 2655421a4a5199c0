"""The worker's end of one launcher: starts that await their answer, and ends that are told."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from moorage.confine import landlock
from moorage.confine.nursery import ALL_GONE, tree
from moorage.confine.nursery.messages import Kind, Message, decode_texts, encode_texts
from moorage.errors import (
    ConfinementUnavailable,
    EnvironmentDied,
    InvalidArguments,
    ProvisionError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from moorage.confine.nursery import Launch, Nursery
    from moorage.process.spec import ProgramSpec, SupervisorLimits


SWEEP_SECONDS = 0.01
"""Between two looks for what nursery and launcher left behind together."""


class Call:
    """One program of a launcher, from the order to start it to what is left of it."""

    __slots__ = (
        "error",
        "exited",
        "has_orphans",
        "is_kept",
        "number",
        "pid",
        "started",
        "wait_status",
        "what",
    )

    def __init__(self, number: int) -> None:
        """Expect a program to start and to end."""
        self.number = number
        self.what = "The program"
        self.started = anyio.Event()
        self.exited = anyio.Event()
        self.pid = 0
        self.error: OSError | None = None
        self.wait_status: int | None = None
        self.has_orphans = False
        self.is_kept = False


class _Answer:
    """A question to the launcher that awaits its number."""

    __slots__ = ("arrived", "value")

    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.value: int | None = None


class LauncherEnd:
    """The worker's end of one launcher; its owner runs ``run`` in a task group."""

    def __init__(self, nursery: Nursery, launch: Launch, limits: SupervisorLimits) -> None:
        """Take over the launch."""
        self.plan = launch.plan
        self.base: Mapping[str, str] | None = None
        self.is_retired = False
        self._nursery = nursery
        self._launch = launch
        self._channel = launch.channel
        self._limits = limits
        self._calls: dict[int, Call] = {}
        self._answers: dict[tuple[Kind, int], _Answer] = {}
        self._last_number = 0
        self._handle: int | None = None
        self._identities: tuple[int, ...] = ()
        self._ready = anyio.Event()
        self._refusal: ConfinementUnavailable | None = None
        self._gone = anyio.Event()
        self._running = anyio.CancelScope(shield=True)
        self._is_lost = False
        self._is_spared = False
        self._sending = anyio.Lock(fast_acquire=True)
        self._in_flight = anyio.Semaphore(limits.spawns_in_flight, fast_acquire=True)

    # The reading side.

    async def run(self) -> None:
        """Hand every message to whoever awaits it, until the launcher is gone."""
        # Whoever is cancelled above still needs the answers to its orders to end things.
        try:
            with self._running:
                while (message := await self._next()) is not None:
                    self._hand_over(message)
                    if message.kind is not Kind.STARTED:
                        # Whoever was woken goes on first; the next message is not urgent.
                        await checkpoint()
                self._is_lost = True
                await self._await_tombstone()
        finally:
            self._is_lost = True
            self._wake_all()

    async def _next(self) -> Message | None:
        while True:
            try:
                received = self._channel.receive()
            except BlockingIOError:
                await anyio.wait_readable(self._channel)
            else:
                return received[0] if received else None

    def _hand_over(self, message: Message) -> None:
        match message.kind:
            case Kind.READY:
                self._handle = _handle(message.numbers[0])
                self._identities = message.numbers[1:]
                self._ready.set()
            case Kind.UNAVAILABLE:
                text, hint = decode_texts(message.texts[0])
                self._refusal = ConfinementUnavailable(text, hint=hint)
                self._ready.set()
            case Kind.STARTED | Kind.NOT_STARTED | Kind.EXITED:
                if message.call in self._calls:
                    self._note(self._calls[message.call], message)
            case _:
                answer = self._answers.pop((message.kind, message.call), None)
                if answer is not None:
                    answer.value = message.numbers[0]
                    answer.arrived.set()

    def _note(self, call: Call, message: Message) -> None:
        if message.kind is Kind.EXITED:
            call.wait_status = message.numbers[0]
            call.has_orphans = bool(message.numbers[1])
            call.exited.set()
            return
        if message.kind is Kind.STARTED:
            call.pid = message.numbers[0]
        else:
            code, what = message.numbers[0], decode_texts(message.texts[0])[0]
            call.error = OSError(code, os.strerror(code), what)
            call.exited.set()
        call.started.set()
        self._in_flight.release()

    async def _await_tombstone(self) -> None:
        """Wait until everything that a lost launcher had started is gone."""
        with anyio.move_on_after(self._limits.answer_seconds):
            await anyio.wait_readable(self._launch.tombstone)
            if os.read(self._launch.tombstone, 1) != ALL_GONE:
                await _end_of(_handle(self._nursery.pid))
                handle, self._handle = self._handle, None
                await _end_of(handle)
                await self._sweep()

    async def _sweep(self) -> None:
        """Nursery and launcher were both lost: what they held has come to this process."""
        while leavings := list(self._leavings()):
            tree.send_signals(leavings, signal.SIGKILL)
            await anyio.sleep(SWEEP_SECONDS)

    def _leavings(self) -> Iterator[tree.Process]:
        children = tree.by_parent(tree.snapshot())
        pids = {call.pid for call in self._calls.values()}
        for top in children.get(os.getpid(), ()):
            nonce = tree.marker_of(top.pid).rpartition(b".")[0].decode("ascii", "replace")
            if nonce == self._launch.nonce or {top.pid, top.group, top.session} & pids:
                yield from (p for p in tree.with_descendants(top, children) if p.is_alive)

    def _wake_all(self) -> None:
        self._ready.set()
        for call in self._calls.values():
            if not call.started.is_set():
                call.started.set()
                self._in_flight.release()
            call.exited.set()
        for answer in self._answers.values():
            answer.arrived.set()
        self._gone.set()

    # The asking side.

    async def ready(self) -> None:
        """Return when the launcher has confined itself.

        Raises:
            ConfinementUnavailable: it could not; nothing ran.
            EnvironmentDied: it was lost.
        """
        if not self._ready.is_set():
            await self._await(self._ready)
        if self._refusal is not None:
            raise ConfinementUnavailable(self._refusal.message, hint=self._refusal.hint)
        self.check_alive()

    def is_usable(self) -> bool:
        """Return whether new children may start here: alive, and its roots are still the same."""
        if self._is_lost or self.is_retired:
            return False
        found = [number for path in self.plan.granted_paths for number in landlock.identity(path)]
        return tuple(found) == self._identities

    def is_idle(self) -> bool:
        """Return whether nothing that it started is known to live."""
        return not self._calls

    async def use_base(self, variables: Mapping[str, str]) -> None:
        """Give the variables that every later child starts with, unless it has them."""
        if self.base is variables:
            return
        self.base = variables
        await self._send(Message(Kind.BASE, texts=(_entries(variables),)))

    async def start(self, call: Call, spec: ProgramSpec, outputs: tuple[int, int]) -> None:
        """Order a program that writes to ``outputs`` (standard output and error).

        Most programs are over before anybody needs to know that they began, so nobody waits for it
        here: ``started`` and ``ended`` tell.

        Raises:
            InvalidArguments: an argument or variable holds a NUL byte; nothing ran.
            EnvironmentDied: the launcher was lost before it could be told to; nothing ran.
        """
        descriptors = [*outputs, *(fd for fd in (spec.cwd_fd, spec.stdin_fd) if fd is not None)]
        places = (spec.cwd, spec.terminal) if spec.terminal else (spec.cwd,)
        texts = (encode_texts(spec.argv), _entries(spec.variables), encode_texts(places))
        flags = (int(spec.cwd_fd is not None), int(spec.stdin_fd is not None))
        call.what = spec.argv[0]
        await self._in_flight.acquire()
        try:
            await self._send(Message(Kind.SPAWN, call.number, flags, texts), descriptors)
        except BaseException:
            self._in_flight.release()
            raise

    async def started(self, call: Call) -> None:
        """Return when a call's program runs, or ran.

        It may have run, printed and ended its launcher before that could tell of it. So the loss is
        told to whoever waits for its end, and what it printed can be read until then.

        Raises:
            InvalidArguments: the arguments are longer than the system takes.
            ProvisionError: the program or its directory cannot be used.
        """
        if not call.started.is_set():
            await self._await(call.started)
        if call.error is not None:
            raise _not_started(call.what, call.error) from call.error

    async def ended(self, call: Call) -> None:
        """Return when a call's program has ended, could not be started or lost its launcher."""
        with anyio.move_on_after(self._limits.answer_seconds):
            await call.exited.wait()
            return
        await self._await(call.started)
        await call.exited.wait()

    def expect(self, number: int | None = None) -> Call:
        """Return a call with a number of its own, before its program is started."""
        self._last_number = number or self._last_number + 1
        call = self._calls[self._last_number] = Call(self._last_number)
        return call

    def forget(self, call: Call) -> None:
        """Drop a call that nobody asks about any more."""
        self._calls.pop(call.number, None)

    async def end(self, call: Call, grace_seconds: float) -> int:
        """End a call's program and its descendants; return how many survived."""
        return await self._ask(Kind.END, Kind.ENDED, call.number, grace_seconds)

    async def count_left(self, call: Call) -> int:
        """Return how many descendants of a call live."""
        return await self._ask(Kind.COUNT, Kind.COUNTED, call.number)

    async def signal(self, call: Call, number: int) -> None:
        """Signal a call's program and its descendants."""
        await self._send(Message(Kind.SIGNAL, call.number, (number,)))

    async def leave_at_crash(self, call: Call, descriptors: Sequence[int]) -> None:
        """Have a call outlive a lost worker: a log and its sources; none takes that back."""
        if not self._is_spared:
            self._is_spared = True
            self._nursery.spare(self._launch)
        call.is_kept = bool(descriptors)
        await self._send(Message(Kind.KEEP, call.number), descriptors)

    async def close(self, grace_seconds: float) -> int:
        """End everything that the launcher started, then the launcher; return how many survived."""
        try:
            left = await self._ask(Kind.CLOSE, Kind.CLOSED, 0, grace_seconds)
        except EnvironmentDied:
            left = 0
        await self._gone.wait()
        return left

    def release(self) -> None:
        """Close the descriptors; ``run`` must have ended."""
        self._channel.close()
        os.close(self._launch.tombstone)
        if self._handle is not None:
            os.close(self._handle)

    async def _ask(self, kind: Kind, answer_kind: Kind, number: int, grace: float = 0.0) -> int:
        times = (int(grace * 1000), int(self._limits.kill_seconds * 1000))
        answer = self._answers.setdefault((answer_kind, number), _Answer())
        await self._send(Message(kind, number, times))
        await self._await(answer.arrived, extra_seconds=grace + self._limits.kill_seconds)
        if answer.value is None:
            raise self._death()
        return answer.value

    async def _await(self, event: anyio.Event, *, extra_seconds: float = 0.0) -> None:
        """Wait for an answer; a launcher that gives none is lost, and made so."""
        with anyio.move_on_after(self._limits.answer_seconds + extra_seconds):
            await event.wait()
            return
        try:
            self._nursery.kill(self._launch)
        except ProvisionError:
            self._running.cancel()
        with anyio.move_on_after(self._limits.answer_seconds):
            await event.wait()
            return
        # Neither answers: there is nobody left to wait for.
        self._running.cancel()
        await event.wait()

    async def _send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        try:
            if not self._sending.locked() and self._channel.try_send(message, descriptors):
                return
            async with self._sending:
                while not self._channel.try_send(message, descriptors):
                    await anyio.wait_writable(self._channel)
        except ValueError as error:
            raise InvalidArguments(f"The program cannot be started: {error}.") from error
        except OSError as error:
            await self._gone.wait()
            raise self._death() from error

    def check_alive(self) -> None:
        """Return while the launcher lives.

        Raises:
            EnvironmentDied: it was lost, and everything it had started was ended.
        """
        if self._is_lost:
            raise self._death()

    @staticmethod
    def _death() -> EnvironmentDied:
        return EnvironmentDied(
            "The process that starts commands was ended, and with it everything it had started.",
            hint="The next command gets a new one. A command that kills every process it can "
            "reach ends it too.",
        )


async def keep_no_more(launcher: LauncherEnd, call: Call) -> None:
    """Take back that a call outlives a lost worker, once all that it printed was taken."""
    if call.is_kept:
        with suppress(EnvironmentDied):  # Then nothing is kept any more.
            launcher.check_alive()
            await launcher.leave_at_crash(call, ())


def _not_started(what: str, error: OSError) -> InvalidArguments | ProvisionError:
    if error.errno == errno.E2BIG:
        return InvalidArguments(
            f"{what} could not be started: its arguments and variables are longer than the system "
            "takes (128 KiB each, about 2 MiB in all). Nothing ran.",
            hint="Write a long command to a file and run that, or give long data as input.",
        )
    return ProvisionError(f"{what} could not be started: {error.filename}: {error.strerror}.")


def _handle(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


async def _end_of(handle: int | None) -> None:
    """Wait until a process has ended, and what it held has moved to its heir."""
    if handle is not None:
        try:
            await anyio.wait_readable(handle)
        finally:
            os.close(handle)


def _entries(variables: Mapping[str, str]) -> tuple[bytes, ...]:
    return encode_texts([f"{name}={value}" for name, value in variables.items()])
