"""What cannot be ended stays a running process, and is told."""

from __future__ import annotations

import anyio
import pytest

from moorage.errors import ShutdownIncomplete
from moorage.process.managed import survivors


@pytest.fixture
async def stuck(bench):
    """A process whose end does not come until it is let go."""
    record = await bench.start("sleep 60")
    live = bench.manager._ledger.find(bench.session, record.id)
    real = live.child.end

    async def end(grace_seconds: float) -> None:
        raise ShutdownIncomplete("2 processes of pid 5 survived SIGKILL.")

    live.child.end = end
    yield record
    if live.child is not None:
        live.child.end = real


async def test_a_stop_that_fails_leaves_the_record_live_and_can_be_repeated(bench, stuck) -> None:
    with pytest.raises(ShutdownIncomplete, match="survived SIGKILL"):
        await bench.stop(stuck.id)
    record = bench.manager.get(bench.session, stuck.id)
    assert (record.status, record.terminal_cause) == ("running", "")
    assert "survived SIGKILL" in record.last_error

    del bench.manager._ledger.find(bench.session, stuck.id).child.end
    assert (await bench.stop(stuck.id)).terminal_cause == "requested_stop"


async def test_a_cleanup_ends_the_others_and_tells_what_remained(bench, stuck) -> None:
    other = await bench.start("sleep 60")

    with pytest.raises(ShutdownIncomplete, match=f"1 background processes.*{stuck.id}"):
        await bench.manager.cleanup(bench.session)
    assert not bench.is_alive(other.pid)
    del bench.manager._ledger.find(bench.session, stuck.id).child.end


async def test_a_stop_after_a_natural_exit_keeps_the_natural_cause(bench) -> None:
    started = await bench.start("(sleep 60 &); exit 3")
    live = bench.manager._ledger.find(bench.session, started.id)
    with anyio.fail_after(5):
        await live.child.wait()

    record = await bench.stop(started.id)
    assert (record.terminal_cause, record.exit_code) == ("natural_exit", 3)


async def test_a_survivor_that_outlives_sigkill_stays_running(bench, monkeypatch) -> None:
    started = await bench.start("sleep 60", lifecycle="managed")
    live = bench.manager._ledger.find(bench.session, started.id)
    live.is_survivor = True

    async def end(*_: object) -> int:
        return 2

    monkeypatch.setattr(survivors.Family, "end", end)
    with pytest.raises(ShutdownIncomplete, match=f"2 processes of {started.id} survived"):
        await bench.stop(started.id)
    assert bench.manager.get(bench.session, started.id).status == "running"
    live.is_survivor = False


async def test_a_forced_stop_leaves_no_grace(bench) -> None:
    started = await bench.start("trap 'echo asked; exit 0' TERM; echo ready; while :; do :; done")
    await bench.until_printed(started.id, "ready\n")
    record = await bench.stop(started.id, is_forced=True)
    assert (record.exit_code, record.terminal_cause) == (137, "requested_stop")
    assert "asked" not in (await bench.read(started.id, 0)).output


async def test_a_forced_stop_does_not_wait_for_a_soft_one(bench) -> None:
    await bench.remake(stop_grace_seconds=1000.0)
    started = await bench.start("trap '' TERM; echo ready; while :; do :; done")
    await bench.until_printed(started.id, "ready\n")
    live = bench.manager._ledger.find(bench.session, started.id)
    ended = []
    async with anyio.create_task_group() as tasks:

        async def stop_softly() -> None:
            ended.append(await bench.stop(started.id))

        tasks.start_soon(stop_softly)
        while not live.is_stop_requested:
            await anyio.lowlevel.checkpoint()
        ended.append(await bench.stop(started.id, is_forced=True))
    assert [(each.status, each.exit_code) for each in ended] == [("stopped", 137)] * 2


async def test_a_forced_stop_of_a_survivor_sends_no_sigterm(bench) -> None:
    started = await bench.start("trap 'exit 0' TERM; echo ready; while :; do :; done")
    await bench.until_printed(started.id, "ready\n")
    top = survivors.find(started)
    assert top is not None
    with anyio.fail_after(5):
        assert await survivors.Family(top).end(0, 2) == 0
    assert (await bench.end_of(started.id)).exit_code == 137
