from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
from collections.abc import Iterator

import pytest

from moorage.confine import hardening, landlock
from moorage.confine.nursery import hold, loop, tree
from moorage.confine.nursery.channel import Channel
from moorage.confine.nursery.families import Sight
from moorage.confine.nursery.hold import Nursery, start_nursery
from moorage.confine.nursery.loop import ALL_GONE, NurseryLoop, keep_descriptors
from moorage.confine.nursery.messages import Kind, Message
from moorage.confine.plan import Plan
from moorage.errors import ConfinementUnavailable, ProvisionError
from moorage.policy.permission import PermissionMode

UNCONFINED = Plan(PermissionMode.UNCONFINED)


def receive(channel: Channel) -> Message:
    channel._connection.settimeout(5)
    received = channel.receive()
    assert received is not None
    return received[0]


def read_tombstone(tombstone: int) -> bytes:
    os.set_blocking(tombstone, True)
    try:
        return os.read(tombstone, 1)
    finally:
        os.close(tombstone)


@pytest.fixture
def fresh() -> Iterator[Nursery]:
    fresh = start_nursery()
    yield fresh
    fresh.close()


def test_a_launcher_says_that_it_is_ready_and_ends_with_its_channel(fresh) -> None:
    launch = fresh.launch(UNCONFINED)
    assert receive(launch.channel).kind is Kind.READY
    launch.channel.close()
    assert read_tombstone(launch.tombstone) == ALL_GONE


def test_a_killed_launcher_is_buried(fresh) -> None:
    launch = fresh.launch(UNCONFINED)
    receive(launch.channel)
    fresh.kill(launch)
    assert read_tombstone(launch.tombstone) == ALL_GONE
    launch.channel.close()


def test_nursery_and_launcher_hold_no_descriptor_of_the_worker(fresh, tmp_path) -> None:
    with (tmp_path / "held").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        other = start_nursery()
        launch = other.launch(UNCONFINED)
        launcher = receive(launch.channel).numbers[0]
    for pid in (other.pid, launcher):
        folder = f"/proc/{pid}/fd"
        targets = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
        assert not [target for target in targets if target.startswith(str(tmp_path))]
        assert targets.count("/dev/null") >= 3
    assert tree.look_at(other.pid).session == other.pid
    launch.channel.close()
    os.close(launch.tombstone)
    other.close()
    other.close()


def test_the_nursery_ignores_what_a_terminal_sends(fresh) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(fresh.pid, number)
    launch = fresh.launch(UNCONFINED)
    assert receive(launch.channel).kind is Kind.READY
    launch.channel.close()
    os.close(launch.tombstone)


def test_an_old_kernel_is_refused_before_anything_is_forked(fresh) -> None:
    with pytest.raises(ConfinementUnavailable, match="ABI 2"):
        fresh.launch(Plan(PermissionMode.STANDARD), found_abi=2)


def test_a_lost_nursery_is_told(fresh) -> None:
    os.kill(fresh.pid, signal.SIGKILL)
    os.waitid(os.P_PID, fresh.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProvisionError, match="has ended"):
        fresh.launch(UNCONFINED)


def test_a_nursery_that_takes_nothing_in_is_told(fresh, monkeypatch) -> None:
    monkeypatch.setattr(fresh._channel, "try_send", lambda *_: False)
    with pytest.raises(ProvisionError, match="does not answer"):
        fresh.launch(UNCONFINED)


def test_a_nursery_that_does_not_end_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(hold, "CLOSE_SECONDS", 0.02)
    stopped = start_nursery()
    os.kill(stopped.pid, signal.SIGSTOP)
    stopped.close()
    assert tree.look_at(stopped.pid) is None


def test_only_linux_has_a_nursery(monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ProvisionError, match="Linux"):
        start_nursery()


def test_a_folder_goes_with_the_worker(tmp_path) -> None:
    gone, full, kept = tmp_path / "gone", tmp_path / "full", tmp_path / "kept"
    for folder in (full / "file", kept):
        folder.mkdir(parents=True)
    nursery = start_nursery()
    for folder in (gone, full, kept):
        nursery.remove_at_end(str(folder))
    nursery.close()
    assert list(tmp_path.iterdir()) == [full]  # what cannot be removed keeps nobody from the rest


@pytest.mark.needs("landlock")
def test_a_program_can_begin_before_there_is_an_event_loop(fresh) -> None:
    early = fresh.begin(Plan(PermissionMode.STANDARD), ["sh", "-c", "echo $A"], {"A": "early"})
    with os.fdopen(early.stdout, "rb") as stdout, os.fdopen(early.stderr, "rb") as stderr:
        assert (stdout.read(), stderr.read()) == (b"early\n", b"")
    early.launch.channel.close()
    os.close(early.launch.tombstone)


# The loop, in the test's own process.


class Bench:
    """A nursery loop whose launchers are plain programs."""

    def __init__(self) -> None:
        self.worker, theirs = Channel.pair()
        self.wakeup, self.wakeup_held = os.pipe()
        self.forked: list[int] = []
        self.orphans: dict[int, tree.Process] = {}
        self.killed: list[int] = []
        self.clock = 0.0
        self.loop = NurseryLoop(
            Channel(theirs),
            wakeup=self.wakeup,
            fork=self.fork,
            reaper=self.reap,
            sight=Sight(
                snapshot=lambda: self.orphans,
                children_of=lambda _: {*self.loop._launchers, *self.orphans},
                send_signal=self.kill,
                now=self.tick,
            ),
        )

    def fork(self, order: Message, channel: int, lifeline: int) -> int:
        if order.numbers == (13,):
            raise BlockingIOError("no process to be had")
        pid = os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)
        self.forked.append(pid)
        return pid

    def reap(self) -> Iterator[tuple[int, int]]:
        for pid in list(self.loop._launchers):
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if found:
                yield found, status

    def kill(self, process: tree.Process, number: int) -> bool:
        self.killed.append(process.pid)
        self.orphans.pop(process.pid, None)
        return True

    def tick(self) -> float:
        self.clock += 0.01
        return self.clock

    def launch(self, number: int, abi: int = 7) -> int:
        """Order a launcher and return its tombstone."""
        tombstone, held = os.pipe()
        unused, theirs = Channel.pair()
        unused.close()
        assert self.worker.try_send(Message(Kind.LAUNCH, number, (abi,)), (theirs.fileno(), held))
        os.close(held)
        theirs.close()
        return tombstone

    def run(self) -> None:
        os.write(self.wakeup_held, b"x")
        self.loop.run()

    def turn(self) -> None:
        """Let the loop take one turn."""
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        poll.register(self.loop._channel, select.POLLIN)
        os.write(self.wakeup_held, b"x")
        self.loop._turn(poll)

    def close(self) -> None:
        self.worker.close()
        os.close(self.wakeup)
        os.close(self.wakeup_held)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.close()


def test_when_the_worker_goes_launchers_and_orphans_are_ended(bench) -> None:
    tombstone = bench.launch(1)
    orphan = tree.Process(4194303, "S", os.getpid(), 1, 1, 1)
    bench.orphans[orphan.pid] = orphan
    bench.worker.close()
    bench.run()
    assert bench.killed == [orphan.pid]
    assert read_tombstone(tombstone) == ALL_GONE
    assert [tree.look_at(pid) for pid in bench.forked] == [None]


def test_one_launcher_can_be_killed_and_the_other_stays(bench) -> None:
    first, second = bench.launch(1), bench.launch(2)
    assert bench.worker.try_send(Message(Kind.KILL, 1))
    for _ in range(3):
        bench.turn()
    os.waitid(os.P_PID, bench.forked[0], os.WEXITED | os.WNOWAIT)
    bench.turn()
    assert read_tombstone(first) == ALL_GONE
    assert list(bench.loop._launchers) == bench.forked[1:]
    bench.worker.close()
    bench.run()
    assert read_tombstone(second) == ALL_GONE


def test_a_stopped_launcher_goes_on(bench) -> None:
    os.close(bench.launch(1))
    bench.turn()
    os.kill(bench.forked[0], signal.SIGSTOP)
    os.waitid(os.P_PID, bench.forked[0], os.WSTOPPED | os.WNOWAIT)
    bench.turn()
    os.waitid(os.P_PID, bench.forked[0], os.WCONTINUED)
    bench.worker.close()
    bench.run()


def test_a_launcher_that_cannot_be_forked_is_buried_at_once(bench) -> None:
    tombstone = bench.launch(1, abi=13)
    bench.worker.close()
    bench.run()
    assert read_tombstone(tombstone) == b""


def test_the_nursery_gives_up_on_what_cannot_be_killed(bench) -> None:
    immortal = tree.Process(4194303, "D", os.getpid(), 1, 1, 1)
    bench.orphans[immortal.pid] = immortal
    times = iter([1000.0, 1000.0, 2000.0])
    bench.loop._sight = bench.loop._sight._replace(
        send_signal=lambda *_: False, now=lambda: next(times)
    )
    bench.worker.close()
    bench.run()
    assert list(times) == []


def test_a_message_that_is_not_for_a_nursery_is_a_defect(bench) -> None:
    assert bench.worker.try_send(Message(Kind.SPAWN))
    with pytest.raises(AssertionError):
        bench.run()


# What a fresh process does to itself, in a fresh process.


def in_a_fork(action) -> int:
    """Run an action in a forked process and return its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if action() else 1)
        except BaseException:  # noqa: BLE001 - a fork must never return into the test runner
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_every_other_descriptor_is_closed() -> None:
    def action() -> bool:
        one, two = os.pipe()
        os.dup2(two, 200)
        kept = keep_descriptors(one, 200)
        null = os.stat(os.devnull).st_rdev
        are_null = all(os.fstat(stream).st_rdev == null for stream in (0, 1, 2))
        held = {int(name) for name in os.listdir("/proc/self/fd")}
        closed_to_children = all(fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC for fd in kept)
        # The listing itself holds one more, which is closed by now.
        extra = {fd for fd in held - {0, 1, 2, *kept} if os.path.exists(f"/proc/self/fd/{fd}")}
        os.write(kept[1], b"x")
        return are_null and closed_to_children and not extra and os.read(kept[0], 1) == b"x"

    assert in_a_fork(action) == 0


def test_the_end_of_a_child_wakes_and_nothing_else_ends_us() -> None:
    def action() -> bool:
        wakeup = loop.prepare_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        pid = os.posix_spawnp("true", ["true"], os.environ)
        os.set_blocking(wakeup, True)
        os.read(wakeup, 128)
        return list(loop.reap()) == [(pid, 0)]

    assert in_a_fork(action) == 0


def test_the_reaper_stops_when_nobody_else_has_ended() -> None:
    def action() -> bool:
        pid = os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)
        is_empty = not list(loop.reap())
        os.kill(pid, signal.SIGKILL)
        return is_empty

    assert in_a_fork(action) == 0


def test_a_name_is_set_for_process_lists() -> None:
    def action() -> bool:
        hardening.set_name("moorage-test")
        with open("/proc/self/comm") as file:
            return file.read() == "moorage-test\n"

    assert in_a_fork(action) == 0


@pytest.mark.needs("landlock", "root")
def test_root_keeps_only_harmless_capabilities_and_cannot_regain_others() -> None:
    def action() -> bool:
        hardening.drop_capabilities()
        hardening.forbid_new_privileges()
        held = hardening.capabilities_of("self")
        within = all(mask & ~hardening.KEPT_MASK == 0 for mask in held.values())
        return within and held["permitted"] == hardening.KEPT_MASK and held["inheritable"] == 0

    assert in_a_fork(action) == 0


@pytest.mark.needs("root")
def test_without_the_right_to_limit_the_bounding_set_no_new_privileges_holds() -> None:
    def action() -> bool:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        hardening.drop_capabilities()
        hardening.forbid_new_privileges()
        return hardening.capabilities_of("self")["permitted"] == 0

    assert in_a_fork(action) == 0


@pytest.mark.needs("root")
def test_capabilities_that_stay_are_a_refusal() -> None:
    def action() -> bool:
        hardening.capabilities_of = lambda _: {"permitted": 1 << 21}
        try:
            hardening.drop_capabilities()
        except ConfinementUnavailable:
            return True
        return False

    assert in_a_fork(action) == 0


def test_a_process_that_forbids_inspection_is_closed_to_its_own_user() -> None:
    def action() -> bool:
        hardening.forbid_inspection()
        return os.stat("/proc/self/environ").st_uid == 0

    assert in_a_fork(action) == 0


@pytest.mark.needs("landlock")
def test_landlock_confines_this_process_for_good(tmp_path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (tmp_path / "link").symlink_to(outside)
    missing, linked = str(tmp_path / "missing"), str(tmp_path / "link")
    plan = Plan(PermissionMode.STANDARD, (str(inside), missing, linked))

    def action() -> bool:
        hardening.forbid_new_privileges()
        grants = nursery_rules(plan)
        identities = landlock.restrict(plan, grants, found_abi=landlock.abi())
        (inside / "file").write_text("x")
        try:
            (outside / "file").write_text("x")
        except PermissionError:
            status = inside.stat()
            own = (status.st_dev, status.st_ino)
            return identities == (own, landlock.MISSING, landlock.MISSING)
        return False

    assert in_a_fork(action) == 0


def nursery_rules(plan: Plan):
    from moorage.confine.plan import rules  # noqa: PLC0415 - used by one test in its fork

    return rules(plan, os.listdir)


def test_the_nursery_needs_the_standard_library_only() -> None:
    code = (
        "import sys, moorage.confine.nursery; "
        "print([name for name in ('anyio', 'msgspec', 'asyncio', 'subprocess', 'inspect') "
        "if name in sys.modules])"
    )
    reading, writing = os.pipe()
    argv = [sys.executable, "-c", code]
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    pid = os.posix_spawn(sys.executable, argv, {}, file_actions=actions)
    os.close(writing)
    with os.fdopen(reading) as file:
        assert file.read() == "[]\n"
    os.waitpid(pid, 0)
