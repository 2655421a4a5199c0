"""The launcher's loop in the test's own process: real children, a part of the process table."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from moorage.confine import call_filter, hardening, landlock
from moorage.confine.nursery import launcher, tree
from moorage.confine.nursery.channel import Channel
from moorage.confine.nursery.families import Families, Sight
from moorage.confine.nursery.launcher import Launcher, Reaped, confine
from moorage.confine.nursery.messages import Kind, Message
from moorage.confine.plan import Plan
from moorage.errors import ConfinementUnavailable
from moorage.policy.permission import PermissionMode

NONCE = b"a-launcher-of-tests"
PATH = b"PATH=" + os.environ["PATH"].encode()
CLOSE = Message(Kind.CLOSE, 0, (0, 2000))


def own_snapshot() -> tree.Table:
    """Return only what these tests started: the rest of the test process's children is not ours."""
    return {
        pid: process
        for pid, process in tree.snapshot().items()
        if tree.marker_of(pid).startswith(NONCE)
    }


class Bench:
    """A launcher whose messages are all queued before it runs."""

    def __init__(self) -> None:
        self.worker, theirs = Channel.pair()
        self.lifeline, self.lifeline_held = os.pipe()
        self.wakeup, self.wakeup_held = os.pipe()
        sight = Sight(snapshot=own_snapshot, children_of=lambda _: set(self.started()))
        self.families = Families(NONCE, sight=sight)
        self.launcher = Launcher(
            Channel(theirs),
            lifeline=self.lifeline,
            wakeup=self.wakeup,
            families=self.families,
            reaper=self.reap,
        )

    def started(self) -> list[int]:
        return list(self.families._running)

    def reap(self) -> Reaped:
        ended = []
        for process in [*self.started(), *self.orphans()]:
            try:
                pid, status = os.waitpid(process, os.WNOHANG)
            except ChildProcessError:
                continue
            if pid:
                ended.append((pid, status))
        return Reaped(ended, has_more=True)

    def orphans(self) -> list[int]:
        return [p.pid for p in own_snapshot().values() if p.parent == os.getpid()]

    def say(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        assert self.worker.try_send(message, descriptors)

    def spawn(self, call: int, command: bytes, cwd: bytes = b"") -> int:
        """Order a shell command and return the reading end of its output."""
        output, output_end = os.pipe()
        texts = ((b"bash", b"-c", command), (PATH,), (cwd,))
        self.say(Message(Kind.SPAWN, call, (0, 0), texts), (output_end, output_end))
        os.close(output_end)
        return output

    def run(self) -> list[Message]:
        """Run the launcher to its end and return what it said."""
        os.write(self.wakeup_held, b"x")
        self.launcher.run()
        said = []
        while (received := self.worker.receive()) is not None:
            said.append(received[0])
        return said

    def run_blind(self, output: int) -> bytes:
        """Run a launcher that ends nothing, and return all that its program wrote."""
        self.families.sight = Sight(snapshot=dict, children_of=lambda _: set())
        self.run()
        with os.fdopen(output, "rb") as file:
            text = file.read()
        for pid in self.started():
            os.waitpid(pid, 0)
        return text

    def close(self) -> None:
        self.worker.close()
        for descriptor in (self.lifeline, self.lifeline_held, self.wakeup, self.wakeup_held):
            os.close(descriptor)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def kinds(messages: list[Message], call: int) -> list[Kind]:
    return [message.kind for message in messages if message.call == call]


def test_a_program_starts_ends_and_is_told_of(bench) -> None:
    output = bench.spawn(1, b"echo $MOORAGE_CALL; exit 3")
    bench.say(Message(Kind.END, 1, (3000, 2000)))
    bench.say(CLOSE)
    said = bench.run()
    assert kinds(said, 1)[0] is Kind.STARTED
    assert Kind.EXITED in kinds(said, 1)
    assert said[-1] == Message(Kind.CLOSED, 0, (0,))
    os.close(output)


def test_variables_are_the_base_then_the_additions_then_the_marker(bench) -> None:
    bench.say(Message(Kind.BASE, texts=((b"ONE=base", b"TWO=base", PATH),)))
    output, output_end = os.pipe()
    texts = ((b"env",), (b"TWO=more=more", b"MOORAGE_CALL=forged"), (b"/",))
    bench.say(Message(Kind.SPAWN, 4, (0, 0), texts), (output_end, output_end))
    os.close(output_end)
    bench.say(CLOSE)
    lines = bench.run_blind(output).decode().splitlines()
    assert {"ONE=base", "TWO=more=more", f"MOORAGE_CALL={NONCE.decode()}.4"} <= set(lines)


def test_a_descriptor_gives_the_directory_and_the_input(bench, tmp_path) -> None:
    (tmp_path / "input").write_text("given\n")
    output, output_end = os.pipe()
    directory = os.open(tmp_path, os.O_RDONLY)
    stdin = os.open(tmp_path / "input", os.O_RDONLY)
    texts = ((b"bash", b"-c", b"pwd; cat"), (PATH,), (b"",))
    bench.say(Message(Kind.SPAWN, 1, (1, 1), texts), (output_end, output_end, directory, stdin))
    for descriptor in (output_end, directory, stdin):
        os.close(descriptor)
    bench.say(CLOSE)
    assert bench.run_blind(output) == f"{tmp_path}\ngiven\n".encode()


def test_what_cannot_start_is_named(bench, tmp_path) -> None:
    os.close(bench.spawn(1, b"true", cwd=b"/no/such/place"))
    file = os.open(__file__, os.O_RDONLY)
    bench.say(Message(Kind.SPAWN, 2, (1, 0), ((b"x",), (), (b"a file",))), (file, file, file))
    bench.say(Message(Kind.SPAWN, 3, (0, 0), ((b"no-such",), (PATH,), (b"",))), (file, file))
    bench.say(Message(Kind.SPAWN, 4, (0, 0), ((b"/no/such",), (PATH,), (b"",))), (file, file))
    os.close(file)
    bench.say(CLOSE)
    said = bench.run()
    failures = {m.call: m.texts[0][0] for m in said if m.kind is Kind.NOT_STARTED}
    assert failures == {1: b"/no/such/place", 2: b"a file", 3: b"no-such", 4: b"/no/such"}


def test_the_living_are_counted_signalled_and_ended(bench) -> None:
    output = bench.spawn(1, b"trap '' TERM; echo; setsid sleep 1000 & wait; sleep 1000")
    other = bench.spawn(2, b"sleep 1000")
    bench.say(Message(Kind.SIGNAL, 2, (signal.SIGKILL,)))
    bench.say(Message(Kind.COUNT, 1))
    bench.say(Message(Kind.END, 1, (20, 2000)))
    bench.say(Message(Kind.END, 9, (0, 0)))
    bench.say(CLOSE)
    said = bench.run()
    counted = next(m for m in said if m.kind is Kind.COUNTED)
    assert counted.numbers[0] >= 1
    assert Message(Kind.ENDED, 9, (0,)) in said
    assert not own_snapshot() or not any(p.is_alive for p in own_snapshot().values())
    os.close(output)
    os.close(other)


def test_a_worker_that_goes_away_takes_everything_along(bench) -> None:
    output = bench.spawn(1, b"sleep 1000")
    bench.worker._connection.shutdown(socket.SHUT_WR)
    assert kinds(bench.run(), 1) == [Kind.STARTED]
    assert os.read(output, 1) == b""
    os.close(output)


def test_a_nursery_that_goes_away_takes_everything_along(bench) -> None:
    output = bench.spawn(1, b"sleep 1000")
    os.close(bench.lifeline_held)
    bench.lifeline_held = os.open(os.devnull, os.O_RDONLY)
    said = bench.run()
    assert Kind.EXITED not in kinds(said, 1)
    os.close(output)


@pytest.fixture
def log(tmp_path) -> Iterator[int]:
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    yield log
    os.close(log)


@pytest.fixture
def woken(bench) -> Iterator[Bench]:
    """Have the end of every child wake the launcher."""
    before = signal.signal(signal.SIGCHLD, lambda *_: os.write(bench.wakeup_held, b"x"))
    yield bench
    signal.signal(signal.SIGCHLD, before)


def test_the_last_words_of_a_kept_program_that_ended_before_its_worker_are_logged(
    woken, log, monkeypatch
) -> None:
    bench = woken
    output = bench.spawn(1, b"echo last")
    os.set_blocking(output, False)
    bench.say(Message(Kind.KEEP, 1), (log, output))

    def reap() -> Reaped:
        reaped = bench.reap()
        if reaped.ended:
            bench.worker._connection.shutdown(socket.SHUT_WR)
        return reaped

    monkeypatch.setattr(bench.launcher, "_reaper", reap)
    bench.run()
    assert os.pread(log, 100, 0) == b"last\n"
    os.close(output)


def test_what_the_worker_took_is_kept_no_more(bench, log) -> None:
    output = bench.spawn(1, b"echo; sleep 1000")
    bench.say(Message(Kind.KEEP, 1), (log, output))
    bench.say(Message(Kind.KEEP, 1))
    bench.worker._connection.shutdown(socket.SHUT_WR)
    bench.run()
    assert os.pread(log, 100, 0) == b""
    os.close(output)


def test_a_last_order_counts_though_the_nursery_went_first(woken, log, monkeypatch) -> None:
    bench = woken
    output = bench.spawn(1, b"sleep 0.1; echo kept")
    os.set_blocking(output, False)
    tell = bench.launcher._tell

    def end_everybody(kind: Kind, *more: int) -> None:
        tell(kind, *more)
        if kind is Kind.STARTED:
            bench.say(Message(Kind.KEEP, 1), (log, output))
            bench.worker.close()
            os.close(bench.lifeline_held)
            bench.lifeline_held = os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(bench.launcher, "_tell", end_everybody)
    bench.launcher.run()
    assert os.pread(log, 100, 0) == b"kept\n"
    os.close(output)


def test_answers_wait_until_the_worker_reads(bench) -> None:
    for call in range(1, 4):
        bench.say(Message(Kind.COUNT, call))
    sent: list[Message] = []
    refusals = iter([False, False, True])
    original = bench.launcher._channel.try_send

    def try_send(message: Message) -> bool:
        if not next(refusals, True):
            return False
        sent.append(message)
        return original(message)

    bench.launcher._channel.try_send = try_send
    bench.say(CLOSE)
    said = bench.run()
    assert said == sent
    assert [m.call for m in said if m.kind is Kind.COUNTED] == [1, 2, 3]


def test_a_message_that_is_not_for_a_launcher_is_a_defect(bench) -> None:
    bench.say(Message(Kind.LAUNCH))
    with pytest.raises(AssertionError):
        bench.run()


def test_the_real_reaper_tells_whether_others_are_left() -> None:
    pid = os.fork()
    if pid == 0:
        first = os.posix_spawnp("true", ["true"], os.environ)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        alone = launcher.reap()
        second = os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)
        busy = launcher.reap()
        os.kill(second, signal.SIGKILL)
        is_right = alone == ([(first, 0)], False) and busy == ([], True)
        os._exit(0 if is_right else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_real_reaper_stops_for_a_moment_where_many_have_ended(monkeypatch) -> None:
    monkeypatch.setattr(launcher, "MOST_REAPED", 2)
    pid = os.fork()
    if pid == 0:
        started = [os.posix_spawnp("true", ["true"], os.environ) for _ in range(3)]
        for child in started:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        first, second = launcher.reap(), launcher.reap()
        is_right = len(first.ended) == 2 and first.has_more and len(second.ended) == 1
        os._exit(0 if is_right and not second.has_more else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_launcher_that_is_behind_goes_on_collecting(bench, monkeypatch) -> None:
    monkeypatch.setattr(launcher, "MOST_REAPED", 1)
    outputs = [bench.spawn(call, b"exit 3") for call in (1, 2, 3)]
    bench.say(CLOSE)
    said = bench.run()
    assert sorted(m.call for m in said if m.kind is Kind.EXITED) == [1, 2, 3]
    for output in outputs:
        os.close(output)


def test_all_are_killed_at_one_blow_only_where_signals_surely_stay_inside(monkeypatch) -> None:
    confined, unconfined = Plan(PermissionMode.STANDARD), Plan(PermissionMode.UNCONFINED)
    parent = os.getppid()
    assert launcher.sight_of(confined, 7, parent) == Sight()  # this process reaches its parent
    monkeypatch.setattr(tree, "is_parent_out_of_reach", lambda pid: pid == parent)
    assert launcher.sight_of(unconfined, 7, parent) == Sight()
    assert launcher.sight_of(confined, 5, parent) == Sight()
    assert launcher.sight_of(confined, 6, parent).kill_all is tree.kill_all


# How a launcher confines itself, and what it says when it cannot.


@pytest.fixture
def no_kernel(monkeypatch):
    """Confine nothing: this is the test's own process."""
    calls: list[str] = []
    for name in ("become_subreaper", "drop_capabilities", "forbid_new_privileges"):
        monkeypatch.setattr(hardening, name, lambda name=name: calls.append(name))
    monkeypatch.setattr(hardening, "forbid_inspection", lambda: calls.append("inspection"))
    monkeypatch.setattr(call_filter, "filter_calls", lambda: calls.append("filter"))

    def restrict(plan: Plan, rules, *, found_abi: int):
        calls.append(f"restrict {len(rules) > 5} {found_abi}")
        return tuple((1, 2) for _ in plan.granted_paths)

    monkeypatch.setattr(landlock, "restrict", restrict)
    return calls


def test_a_restricted_plan_is_confined_in_the_one_right_order(no_kernel) -> None:
    ready = confine(Plan(PermissionMode.STANDARD, ("/w",), ("/no/such",)), 7)
    assert ready == Message(Kind.READY, numbers=(os.getpid(), 1, 2))
    assert no_kernel == [
        "become_subreaper",
        "drop_capabilities",
        "forbid_new_privileges",
        "filter",
        "restrict True 7",
        "inspection",
    ]


def test_an_unconfined_plan_is_not_confined(no_kernel, tmp_path) -> None:
    ready = confine(Plan(PermissionMode.UNCONFINED, (str(tmp_path),)), 0)
    assert ready.numbers[1:] == landlock.identity(str(tmp_path))
    assert no_kernel == ["become_subreaper"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfinementUnavailable("no way.", hint="try this."), (b"no way.", b"try this.")),
        (
            PermissionError(1, "not you"),
            (b"The kernel refused to confine commands: [Errno 1] not you. Nothing ran.", b""),
        ),
    ],
)
def test_what_prevents_confinement_is_told(no_kernel, monkeypatch, error, text) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(hardening, "drop_capabilities", fail)
    said = confine(Plan(PermissionMode.STANDARD), 7)
    assert said == Message(Kind.UNAVAILABLE, texts=(text,))
