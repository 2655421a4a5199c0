"""What a killed worker leaves: the managed processes, and what the next one makes of them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from moorage.confine.nursery import tree
from moorage.errors import InvalidArguments

KEEPER = Path(__file__).parent / "a_keeper.py"

pytestmark = pytest.mark.needs("landlock")


class Left:
    """The ids and pids of what a killed worker had started."""

    def __init__(self, bench, root: Path, words: list[str]) -> None:
        self.bench = bench
        self.root = root
        self.in_terminal, self.in_pipe, self.of_session = words[0::2]
        self.pids = dict(zip(words[0::2], map(int, words[1::2]), strict=True))
        self.kept = (self.in_terminal, self.in_pipe)

    def descendants(self) -> list[int]:
        """Return whoever works in the folder, and the launchers that this worker had."""
        found = []
        for process in tree.snapshot().values():
            try:
                command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                folder = os.readlink(f"/proc/{process.pid}/cwd")
            except OSError:
                continue
            is_launcher = KEEPER.name.encode() in command and os.fsencode(self.root) in command
            if process.is_alive and (is_launcher or folder == str(self.root)):
                found.append(process.pid)
        return found

    def say(self, word: str) -> None:
        (self.root / word).touch()


@pytest.fixture(params=["standard", "unconfined"])
async def left(request, bench, place, hand) -> AsyncIterator[Left]:
    argv = [sys.executable, str(KEEPER), request.param, str(place.root), str(bench.folder)]
    await bench.manager.aclose()
    with anyio.fail_after(20):
        async with await anyio.open_process(argv, stderr=None) as worker:
            said = b""
            while not said.endswith(b"\n"):
                said += await worker.stdout.receive()
            worker.kill()
            await worker.wait()
    left = Left(bench, place.root, said.decode().split())
    await hand.await_end(left.pids[left.of_session])
    bench.manager = bench.make()
    await bench.manager.open()
    yield left
    left.say("go")
    left.say("end")
    for process_id in left.kept:
        await bench.stop(process_id)
    for pid in left.pids.values():
        await hand.await_end(pid)
    await hand.until(lambda: not left.descendants())


async def test_managed_processes_survive_and_those_of_the_session_do_not(left, bench) -> None:
    found = {record.id: record for record in bench.manager.list(bench.session)}

    for process_id in left.kept:
        assert found[process_id].status == "running"
        assert bench.is_alive(left.pids[process_id])
        assert not bench.manager.input_available(bench.session, process_id)
        with pytest.raises(InvalidArguments, match="takes no input"):
            await bench.manager.write(bench.session, process_id, b"x")
    with pytest.raises(InvalidArguments, match="no terminal of this worker"):
        await bench.manager.resize(bench.session, left.in_terminal, 80, 24)
    ended = found[left.of_session]
    assert (ended.status, ended.exit_code, ended.terminal_cause) == ("failed", -1, "natural_exit")
    assert "no worker could see" in ended.last_error
    assert bench.manager.completion_pending(bench.session, left.of_session)


async def test_what_a_survivor_prints_goes_on_in_its_log(left, bench) -> None:
    left.say("go")

    for process_id in left.kept:
        text = await bench.until_printed(process_id, "after")
        assert text.replace("\r", "").startswith("before\nafter")


async def test_what_a_worker_was_just_moving_when_it_was_killed_is_in_the_log(
    bench, place, hand
) -> None:
    argv = [sys.executable, str(KEEPER), "unconfined", str(place.root), str(bench.folder)]
    await bench.manager.aclose()
    with anyio.fail_after(20):
        worker = await anyio.run_process([*argv, "halfway"], check=False, stderr=None)
    assert worker.returncode == -signal.SIGKILL
    bench.manager = bench.make()
    await bench.manager.open()
    (survivor,) = bench.manager.list(bench.session)
    try:
        for word in ("go", "end"):
            (place.root / word).touch()
        record = await bench.end_of(survivor.id)
        text = await bench.until_printed(survivor.id, "after")
        assert text.replace("\r", "") == "before\nafter\n"
        assert record.total_bytes == len("before\r\nafter\r\n")
    finally:
        await bench.stop(survivor.id)
        await hand.await_end(survivor.pid)


async def test_the_end_of_a_survivor_is_seen(left, bench) -> None:
    left.say("go")
    left.say("end")

    for process_id in left.kept:
        record = await bench.end_of(process_id)
        assert (record.status, record.exit_code) == ("failed", -1)
        assert record.total_bytes == len("before\nafter\n") + 2 * record.tty
        assert record.log_sha256


async def test_a_survivor_and_all_its_descendants_can_be_stopped(left, bench, hand) -> None:
    left.say("go")
    for process_id in left.kept:
        await bench.until_printed(process_id, "after")

    for process_id in left.kept:
        record = await bench.stop(process_id)
        assert (record.status, record.terminal_cause) == ("stopped", "requested_stop")
    for pid in left.pids.values():
        assert not bench.is_alive(pid)


async def test_a_worker_that_closes_leaves_what_it_does_not_hold(left, bench) -> None:
    await bench.manager.cleanup(bench.session)
    await bench.remake()

    for process_id in left.kept:
        assert bench.is_alive(left.pids[process_id])


async def test_a_record_edited_to_another_start_has_nothing_signalled(left, bench) -> None:
    path = bench.folder / "processes" / f"{left.in_pipe}.json"
    original = path.read_bytes()
    record = json.loads(original)
    scheme, boot, ticks = record["process_start_time"].split(":")
    path.write_text(
        json.dumps({**record, "process_start_time": f"{scheme}:{boot}:{int(ticks) - 1}"})
    )
    await bench.remake()

    stopped = await bench.stop(left.in_pipe)
    assert stopped.status == "failed"
    assert "identity does not match" in stopped.last_error
    assert bench.is_alive(left.pids[left.in_pipe])
    path.write_bytes(original)
    await bench.remake()


async def test_a_survivor_whose_record_changes_under_a_worker_is_never_mistaken(
    left, bench
) -> None:
    live = bench.manager._ledger.find(bench.session, left.in_pipe)
    fake = {"process_start_time": live.record.process_start_time + "1"}
    original = live.record
    bench.manager._ledger.change(live, **fake)

    stopped = await bench.stop(left.in_pipe)
    assert "identity does not match" in stopped.last_error
    assert bench.is_alive(left.pids[left.in_pipe])
    os.kill(left.pids[left.in_pipe], signal.SIGKILL)
    assert original.pid == left.pids[left.in_pipe]
