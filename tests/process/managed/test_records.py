from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio
import pytest

from moorage.errors import ConfigError, ProvisionError
from moorage.process.kept.records import Folders, stamp
from moorage.process.managed import identity
from moorage.process.managed.live import UnknownProcess
from moorage.protocol.processes import ZERO_TIME, ProcessRecord

LONG_AGO = "2001-01-01T00:00:00.000000000Z"
RUNNING = {"status": "running", "terminal_cause": "", "stopped_at": ZERO_TIME, "exit_code": -1}


async def ended(bench, command: str = "true", **changes: object):
    record = await bench.end_of((await bench.start(command, **changes)).id)
    path = bench.folder / "processes" / f"{record.id}.json"
    return record, path, json.loads(path.read_text())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda raw: json.dumps(raw)[:-20], "no record"),
        (lambda raw: "", "no record"),
        (lambda raw: "[1]", "no record"),
        (lambda raw: json.dumps({**raw, "id": "proc-00000000"}), "not the name of the file"),
        (lambda raw: json.dumps({**raw, "pid": "1"}), "no record"),
        (lambda raw: json.dumps({**raw, "pid": -5}), "below zero"),
        (lambda raw: json.dumps({**raw, "status": "odd"}), "no record"),
        (lambda raw: json.dumps({**raw, "stopped_at": "never"}), "times is none"),
        (lambda raw: " " * 5_000_000, "too long"),
    ],
)
async def test_a_record_edited_by_hand_is_named_and_harms_nothing_else(bench, change, text) -> None:
    record, path, raw = await ended(bench)
    other, _, _ = await ended(bench)
    path.write_text(change(raw))
    await bench.remake()

    assert [each.id for each in bench.manager.list(bench.session)] == [other.id]
    with pytest.raises(UnknownProcess, match=text):
        bench.manager.get(bench.session, record.id)
    assert path.exists()


async def test_a_record_that_is_a_symlink_a_folder_or_a_fifo_is_not_used(bench, tmp_path) -> None:
    record, path, _ = await ended(bench)
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    (path.parent / "proc-00000001.json").mkdir()
    os.mkfifo(path.parent / "proc-00000002.json")
    await bench.remake()

    for process_id in (record.id, "proc-00000001", "proc-00000002"):
        with pytest.raises(UnknownProcess, match="cannot be used"):
            await bench.stop(process_id)


async def test_an_id_that_leads_elsewhere_is_refused(bench) -> None:
    _, path, raw = await ended(bench)
    (path.parent / "x.json").write_text(json.dumps({**raw, "id": "../x"}))
    (path.parent / "y.json").write_text(json.dumps({**raw, "id": "y"}))
    await bench.remake()

    assert len(bench.manager.list(bench.session)) == 1
    with pytest.raises(UnknownProcess):
        bench.manager.get(bench.session, "../x")


async def test_what_a_record_says_about_its_log_opens_nothing(bench, tmp_path) -> None:
    record, path, raw = await ended(bench, "echo mine")
    (tmp_path / "other").write_text("not mine")
    path.write_text(json.dumps({**raw, "log_path": str(tmp_path / "other")}))
    await bench.remake()

    assert (await bench.read(record.id)).output == "mine\n"


async def test_a_half_written_record_is_removed(bench) -> None:
    left = bench.folder / "processes" / ".proc-00000001.abcd"
    left.write_text("{")
    await bench.remake()
    assert not left.exists()


async def test_records_of_31_days_go_unless_they_are_owed_or_live(bench) -> None:
    old = stamp(time.time_ns() - 31 * 24 * 3600 * 1_000_000_000)
    taken, taken_path, taken_raw = await ended(bench)
    owed, owed_path, owed_raw = await ended(bench)
    young, young_path, young_raw = await ended(bench)
    taken_raw["completion_consumed_by"] = young_raw["completion_consumed_by"] = "main"
    taken_path.write_text(json.dumps({**taken_raw, "stopped_at": old}))
    owed_path.write_text(json.dumps({**owed_raw, "stopped_at": old}))
    young_path.write_text(json.dumps(young_raw))
    await bench.remake()

    assert {each.id for each in bench.manager.list(bench.session)} == {owed.id, young.id}
    assert not taken_path.exists()
    assert not (bench.folder / "logs" / f"{taken.id}.log").exists()


async def test_a_process_that_ended_unseen_is_owed_and_says_so(bench) -> None:
    record, path, raw = await ended(bench)
    live = {
        **raw,
        "status": "running",
        "terminal_cause": "",
        "stopped_at": ZERO_TIME,
        "exit_code": -1,
    }
    path.write_text(json.dumps({**live, "pid": 2**22 - 3, "pgid": 2**22 - 3}))
    await bench.remake()

    found = bench.manager.get(bench.session, record.id)
    assert (found.status, found.exit_code) == ("failed", -1)
    assert "no worker could see" in found.last_error
    assert bench.manager.completion_pending(bench.session, record.id)


async def test_a_reused_pid_is_never_signalled(bench) -> None:
    record, path, raw = await ended(bench)
    pid = os.getpid()
    live = {
        **raw,
        "status": "running",
        "terminal_cause": "",
        "stopped_at": ZERO_TIME,
        "exit_code": -1,
    }
    path.write_text(json.dumps({**live, "pid": pid, "pgid": os.getpgid(0)}))
    await bench.remake()

    stopped = await bench.stop(record.id)
    assert "identity does not match" in stopped.last_error
    assert stopped.status == "failed"


@pytest.mark.parametrize(
    ("pid", "group"), [(0, 5), (1, 1), (5, 1), (-1, -1)], ids=["none", "init", "group 1", "all"]
)
def test_a_pid_or_group_of_1_or_less_means_nobody(pid, group) -> None:
    assert identity.find(pid, group, "linux-v1:x:1") is None


def test_a_process_is_known_by_boot_start_and_group() -> None:
    pid, group = os.getpid(), os.getpgid(0)
    known = identity.identity_of(pid)

    found = identity.find(pid, group, known)
    assert found is not None
    assert found.pid == pid
    assert identity.find(pid, group + 1, known) is None
    assert identity.find(pid, group, known + "0") is None
    assert identity.find(pid, group, "") is None
    assert identity.find(2**22 - 3, group, known) is None


@pytest.mark.parametrize("name", ["processes", "logs"])
def test_a_folder_that_is_a_symlink_or_a_file_is_refused(tmp_path, name) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(ConfigError, match="cannot keep processes"):
        Folders(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).write_text("")
    with pytest.raises(ConfigError, match="cannot keep processes"):
        Folders(tmp_path)


def test_a_folder_that_is_open_to_others_is_closed(tmp_path) -> None:
    (tmp_path / "logs").mkdir(mode=0o755)
    Folders(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


async def test_a_start_on_a_full_disk_is_told_and_nothing_runs(bench, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(ProvisionError, match="No space left"):
        await bench.start("true")
    monkeypatch.undo()
    assert os.listdir(bench.folder / "processes") == os.listdir(bench.folder / "logs") == []


async def test_a_disk_that_fills_up_later_costs_the_record_and_not_the_process(
    bench, monkeypatch
) -> None:
    started = await bench.start("read line; exit 3")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    await bench.manager.write(bench.session, started.id, b"\n")
    assert (await bench.end_of(started.id)).exit_code == 3
    monkeypatch.undo()


async def test_a_manager_that_is_not_open_says_so(bench) -> None:
    manager = bench.make()
    with pytest.raises(ConfigError, match="not open"):
        await manager.start(bench.spec("true"))
    await manager.aclose()
    await manager.aclose()


@pytest.fixture
async def survivor(bench, place) -> AsyncIterator[ProcessRecord]:
    """A process that runs, and whose record says that it was started long ago."""
    record, path, raw = await ended(bench)
    runs = await anyio.open_process(["sleep", "60"], cwd=place.root, start_new_session=True)
    start = identity.identity_of(runs.pid)
    of = {"pid": runs.pid, "pgid": runs.pid, "process_start_time": start}
    begun = {"started_at": LONG_AGO, "updated_at": LONG_AGO}
    path.write_text(json.dumps({**raw, **RUNNING, **of, **begun}))
    try:
        await bench.remake()
        yield bench.manager.get(bench.session, record.id)
    finally:
        with suppress(ProcessLookupError):
            runs.kill()
        await runs.aclose()


async def test_a_process_that_runs_is_kept_however_old_its_record_is(bench, survivor) -> None:
    assert (survivor.status, survivor.started_at) == ("running", LONG_AGO)
    assert (bench.folder / "processes" / f"{survivor.id}.json").exists()
    assert (bench.folder / "logs" / f"{survivor.id}.log").exists()


async def test_an_end_that_is_seen_when_all_is_closed_is_left_to_the_next_worker(
    bench, survivor
) -> None:
    live = bench.manager._ledger.find(bench.session, survivor.id)
    await bench.manager.aclose()
    os.kill(survivor.pid, signal.SIGKILL)
    with anyio.fail_after(5):
        await bench.manager._keeper.survivor_gone(live)
    on_disk = json.loads((bench.folder / "processes" / f"{survivor.id}.json").read_text())
    assert on_disk["status"] == "running"
    await bench.remake()

    found = bench.manager.get(bench.session, survivor.id)
    assert (found.status, found.terminal_cause) == ("failed", "natural_exit")
    assert "no worker could see" in found.last_error
