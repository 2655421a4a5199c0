"""The worker's end of a launcher, with the test in the launcher's place."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator

import anyio
import pytest

from moorage.confine.nursery import ALL_GONE, Launch
from moorage.confine.nursery.channel import Channel
from moorage.confine.nursery.messages import Kind, Message
from moorage.confine.plan import Plan
from moorage.errors import (
    ConfinementUnavailable,
    EnvironmentDied,
    InvalidArguments,
    ProvisionError,
    ShutdownIncomplete,
)
from moorage.policy.permission import PermissionMode
from moorage.process.child import Child, PipeReader
from moorage.process.launching import LauncherEnd
from moorage.process.spec import ExitStatus, ProgramSpec, SupervisorLimits

PLAN = Plan(PermissionMode.UNCONFINED)
LIMITS = SupervisorLimits(
    answer_seconds=0.1, kill_seconds=0.1, end_grace_seconds=0.1, spawns_in_flight=1
)


class FakeNursery:
    def __init__(self, bench: Bench) -> None:
        self.pid = 1 << 22
        self.bench = bench
        self.is_gone = False
        self.is_deaf = False

    def kill(self, launch: Launch) -> None:
        if self.is_gone:
            raise ProvisionError("gone")
        if not self.is_deaf:
            self.bench.die()


class Bench:
    """The launcher's side of one channel."""

    def __init__(self) -> None:
        ours, theirs = Channel.pair()
        self.channel = Channel(theirs)
        tombstone, self.tombstone = os.pipe()
        self.nursery = FakeNursery(self)
        launch = Launch(1, PLAN, "nonce", ours, tombstone)
        self.end = LauncherEnd(self.nursery, launch, LIMITS)  # type: ignore[arg-type]

    def say(self, kind: Kind, call: int = 0, *numbers: int, texts: tuple = ()) -> None:
        assert self.channel.try_send(Message(kind, call, numbers, texts))

    async def hear(self) -> Message:
        while True:
            try:
                received = self.channel.receive()
            except BlockingIOError:
                await anyio.wait_readable(self.channel)
                continue
            assert received is not None
            for descriptor in received[1]:
                os.close(descriptor)
            return received[0]

    def die(self, word: bytes = ALL_GONE) -> None:
        if self.tombstone >= 0:
            os.write(self.tombstone, word)
            os.close(self.tombstone)
            self.tombstone = -1
            self.channel.close()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.end.run)
            yield bench
            bench.die()
    bench.end.release()


SPEC = ProgramSpec(argv=("x",), plan=PLAN)


async def expect_loss(action, *arguments: object) -> None:
    with pytest.raises(EnvironmentDied, match="was ended"):
        await action(*arguments)


async def started(bench: Bench, *, answer: Kind | None = Kind.STARTED) -> Child:
    """Return a child that the launcher was told to start, and what it says of it."""
    call = bench.end.expect()
    stdout, stdout_end = os.pipe()
    stderr, stderr_end = os.pipe()
    child = Child(bench.end, call, PipeReader(stdout), PipeReader(stderr))
    if answer is Kind.STARTED:
        bench.say(answer, call.number, 4242)
    elif answer is Kind.NOT_STARTED:
        bench.say(answer, call.number, errno.EACCES, texts=((b"/x",),))
    await bench.end.start(call, SPEC, (stdout_end, stderr_end))
    os.close(stdout_end)
    os.close(stderr_end)
    assert (await bench.hear()).kind is Kind.SPAWN
    return child


def close(child: Child) -> None:
    child.stdout.close()
    child.stderr.close()
    child.stderr.close()


async def test_a_launcher_is_ready_or_says_why_not(bench) -> None:
    bench.say(Kind.UNAVAILABLE, texts=((b"no way.", b"try this."),))
    for _ in range(2):
        with pytest.raises(ConfinementUnavailable, match=r"no way\. try this\."):
            await bench.end.ready()


async def test_a_launcher_whose_process_is_gone_already_is_still_heard(bench) -> None:
    bench.say(Kind.READY, 0, 1 << 22)
    await bench.end.ready()
    assert bench.end.is_usable()


async def test_the_end_of_a_program_is_told_whoever_asks_how_often(bench) -> None:
    child = await started(bench)
    assert child.pid == 0
    await child.started()
    assert child.pid == 4242
    bench.say(Kind.EXITED, 1, 7 << 8, 0)
    assert await child.wait() == ExitStatus(exit_code=7)
    assert await child.wait() == ExitStatus(exit_code=7)
    assert await child.count_left() == 0
    await child.end(1)
    close(child)


async def test_a_program_that_cannot_start_is_named(bench) -> None:
    call = bench.end.expect()
    bench.say(Kind.NOT_STARTED, 1, errno.EACCES, texts=((b"/x",),))
    with pytest.raises(ProvisionError, match="The program could not be started: /x: Permission"):
        await bench.end.started(call)


async def test_a_program_that_could_not_start_has_ended_for_whoever_waits_for_it(bench) -> None:
    child = await started(bench, answer=Kind.NOT_STARTED)
    for ask in (child.wait, child.started, child.wait):
        with pytest.raises(ProvisionError, match="x could not be started: /x: Permission"):
            await ask()
    assert await child.count_left() == 0
    close(child)


async def test_a_launcher_that_never_answers_a_start_is_lost(bench) -> None:
    child = await started(bench, answer=None)
    with pytest.raises(EnvironmentDied):
        await child.wait()
    close(child)


async def test_starts_that_a_lost_launcher_owes_hold_nobody_back(bench) -> None:
    child = await started(bench, answer=None)
    other = bench.end.expect()
    async with anyio.create_task_group() as tasks:
        # One start may be owed an answer here, so the second waits for its turn.
        tasks.start_soon(expect_loss, bench.end.start, other, SPEC, ())
        await anyio.wait_all_tasks_blocked()
        bench.die()
    close(child)


async def test_what_survives_is_a_shutdown_that_is_incomplete(bench) -> None:
    child = await started(bench)
    bench.say(Kind.ENDED, 1, 2)
    with pytest.raises(ShutdownIncomplete, match="2 processes of pid 4242 survived"):
        await child.end(0)
    close(child)


async def test_an_answer_that_nobody_awaits_is_dropped(bench) -> None:
    bench.say(Kind.COUNTED, 99, 1)
    bench.say(Kind.EXITED, 99, 0, 0)
    child = await started(bench)
    bench.end.forget(child._call)
    assert bench.end.is_idle()
    close(child)


async def test_a_lost_launcher_wakes_everyone(bench) -> None:
    child = await started(bench)
    call = bench.end.expect()
    woken: list[str] = []

    async def expect_death(name: str, action, *arguments: object) -> None:
        with pytest.raises(EnvironmentDied, match="was ended"):
            await action(*arguments)
        woken.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(expect_death, "wait", child.wait)
        tasks.start_soon(expect_death, "ready", bench.end.ready)
        tasks.start_soon(expect_death, "count", bench.end.count_left, call)
        await bench.hear()
        bench.die()
    assert sorted(woken) == ["count", "ready", "wait"]
    await child.end(0)
    assert await child.count_left() == 0
    with pytest.raises(EnvironmentDied):
        await child.signal(1)
    assert not bench.end.is_usable()
    assert await bench.end.close(0) == 0
    close(child)


async def test_a_program_may_have_run_though_its_launcher_was_lost_before_it_said_so(bench) -> None:
    call = bench.end.expect()
    reading, writing = os.pipe()
    stderr, stderr_end = os.pipe()
    child = Child(bench.end, call, PipeReader(reading), PipeReader(stderr))
    os.write(writing, b"so far")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.end.started, call)
        await anyio.wait_all_tasks_blocked()
        bench.die()
    assert child.pid == 0
    assert not child.is_running
    with pytest.raises(EnvironmentDied):
        await child.wait()
    assert await child.stdout.read() == b"so far"
    os.close(writing)
    os.close(stderr_end)
    close(child)


async def test_a_launcher_that_does_not_answer_is_killed(bench) -> None:
    with pytest.raises(EnvironmentDied):
        await bench.end.count_left(bench.end.expect())


@pytest.mark.parametrize("trouble", ["is_gone", "is_deaf"])
async def test_nobody_waits_for_a_launcher_that_cannot_even_be_killed(bench, trouble) -> None:
    setattr(bench.nursery, trouble, True)
    with pytest.raises(EnvironmentDied):
        await bench.end.ready()


async def test_a_tombstone_without_a_word_means_that_the_nursery_was_lost(bench) -> None:
    bench.die(b"")
    with pytest.raises(EnvironmentDied):
        await bench.end.ready()


async def test_a_full_socket_is_waited_for_in_order(bench) -> None:
    big = "x" * 30_000
    order: list[int] = []

    async def set_base(number: int) -> None:
        await bench.end.use_base({"N": str(number), "BIG": big})
        order.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(set_base, number)
        heard = [await bench.hear() for _ in range(30)]
    assert [message.texts[0][0] for message in heard] == [b"N=%d" % n for n in range(30)]
    assert sorted(order) == list(range(30))


async def test_a_nul_byte_never_leaves_the_worker(bench) -> None:
    with pytest.raises(InvalidArguments, match="NUL"):
        await bench.end.use_base({"A": "\0"})


async def test_whoever_reads_a_pipe_that_is_closed_is_told() -> None:
    reading, writing = os.pipe()
    reader = PipeReader(reading)

    async def read() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await reader.read()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            reader.close()
    os.close(writing)


async def test_what_waits_in_a_pipe_can_be_dropped() -> None:
    reading, writing = os.pipe()
    reader = PipeReader(reading)
    assert not reader.drop_waiting()
    os.write(writing, b"x" * 1000)
    assert not reader.drop_waiting(100)
    os.close(writing)
    assert reader.drop_waiting()
    assert reader.is_at_end
    assert await reader.read() == b""
    reader.close()


@pytest.mark.timeout(5)  # a writer that is as fast as the reader gives it no end
def test_no_more_is_dropped_at_a_time_than_a_pipe_holds() -> None:
    reader = PipeReader(os.open("/dev/zero", os.O_RDONLY))
    assert not reader.drop_waiting()
    assert not reader.is_at_end
    reader.close()
