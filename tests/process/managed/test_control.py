from __future__ import annotations

import json
import os
import stat

import anyio
import pytest

from moorage.errors import InvalidArguments
from moorage.process.managed.live import Owner, UnknownProcess
from moorage.protocol.processes import ZERO_TIME


async def test_a_background_start_returns_an_id_and_a_record_that_is_on_disk(bench) -> None:
    record = await bench.start("echo hello; sleep 60", operation_id="op-1")

    on_disk = json.loads((bench.folder / "processes" / f"{record.id}.json").read_text())
    assert record.status == on_disk["status"] == "running"
    assert on_disk["operation_id"] == "op-1"
    assert record.exit_code == -1
    assert record.pid == record.pgid > 1
    assert record.process_start_time.startswith("linux-v1:")
    assert record.stopped_at == ZERO_TIME
    assert [event.type for event in bench.events] == ["started"]


async def test_records_and_logs_are_private(bench) -> None:
    record = await bench.start("sleep 60")

    for folder in ("processes", "logs"):
        assert stat.S_IMODE(os.stat(bench.folder / folder).st_mode) == 0o700
    for file in (f"processes/{record.id}.json", f"logs/{record.id}.log"):
        assert stat.S_IMODE(os.stat(bench.folder / file).st_mode) == 0o600


async def test_a_natural_exit_is_told_once_with_its_code_and_a_receipt(bench) -> None:
    started = await bench.start("printf 12345; exit 3")
    record = await bench.end_of(started.id)

    assert (record.status, record.terminal_cause, record.exit_code) == ("failed", "natural_exit", 3)
    assert record.total_bytes == 5
    assert record.log_sha256 == ("5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5")
    assert "exit code 3" in record.last_error
    await bench.until_told("failed")
    assert [(e.type, e.cause) for e in bench.events] == [
        ("started", ""),
        ("failed", "natural_exit"),
    ]


async def test_an_exit_with_zero_is_stopped_and_not_failed(bench) -> None:
    record = await bench.end_of((await bench.start("true")).id)

    assert (record.status, record.exit_code, record.last_error) == ("stopped", 0, "")
    assert record.stopped_at != ZERO_TIME


async def test_a_process_ended_by_a_signal_has_the_code_that_a_shell_gives(bench) -> None:
    record = await bench.end_of((await bench.start("kill -9 $$")).id)

    assert (record.exit_code, record.status) == (137, "failed")
    assert "signal 9" in record.last_error


async def test_output_and_complaints_come_in_order_in_one_log(bench) -> None:
    started = await bench.start("echo a; echo b >&2; echo c")
    await bench.end_of(started.id)

    assert (await bench.read(started.id)).output == "a\nb\nc\n"


async def test_following_the_end_offset_gives_every_byte_once(bench) -> None:
    started = await bench.start("seq 1 20000")
    await bench.end_of(started.id)

    parts, at = [], 0
    while True:
        window = await bench.read(started.id, at, max_bytes=7001)
        assert window.start_offset == at
        parts.append(window.output)
        at = window.end_offset
        if not window.truncated:
            break
    assert "".join(parts).split() == [str(n) for n in range(1, 20001)]
    assert at == window.total_bytes


async def test_a_read_without_an_offset_gives_the_newest_bytes(bench) -> None:
    started = await bench.start("seq 1 20000")
    await bench.end_of(started.id)

    window = await bench.read(started.id)
    assert len(window.output) == 32768 == window.end_offset - window.start_offset
    assert window.output.endswith("20000\n")
    assert window.truncated
    small = await bench.read(started.id, max_bytes=6)
    assert small.output == "20000\n"


async def test_an_offset_past_the_end_is_answered_with_the_end(bench) -> None:
    started = await bench.start("echo hello")
    await bench.end_of(started.id)

    window = await bench.read(started.id, 1000)
    assert (window.output, window.start_offset, window.end_offset) == ("", 6, 6)


async def test_an_offset_below_zero_is_refused(bench) -> None:
    started = await bench.start("true")

    with pytest.raises(InvalidArguments, match="below zero"):
        await bench.read(started.id, -1)


async def test_a_waiting_read_returns_on_new_output(bench) -> None:
    started = await bench.start("read line; echo got $line; sleep 60")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.manager.write, bench.session, started.id, b"it\n")
        window = await bench.read(started.id, 0, wait=5)
    assert window.output == "got it\n"
    assert not window.timed_out


async def test_a_wait_that_expires_is_no_error(bench) -> None:
    started = await bench.start("sleep 60")

    window = await bench.read(started.id, 0, wait=0.02)
    assert window.timed_out
    assert window.output == ""
    assert window.duration_ns > 0


async def test_a_wait_is_clamped_to_the_longest(bench) -> None:
    await bench.remake(longest_wait_seconds=0.02)
    started = await bench.start("sleep 60")

    assert (await bench.read(started.id, 0, wait=400)).timed_out


async def test_the_end_of_a_process_ends_a_waiting_read_at_once(bench) -> None:
    started = await bench.start("read line; exit 4")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.manager.write, bench.session, started.id, b"\n")
        window = await bench.read(started.id, 0, wait=9, dwell=9)
    assert (window.process.exit_code, window.timed_out) == (4, False)


async def test_continuous_output_is_gathered_for_the_dwell(bench) -> None:
    started = await bench.start("while :; do echo x; read -t 0.01; done")
    await bench.until_printed(started.id, "x")

    at = (await bench.read(started.id)).total_bytes
    window = await bench.read(started.id, at, wait=5, dwell=0.2)
    assert window.duration_ns >= 200_000_000
    assert not window.timed_out
    assert window.output.count("x") > 1


async def test_a_full_window_ends_the_dwell(bench) -> None:
    started = await bench.start("read line; yes | head -c 100000; sleep 60")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.manager.write, bench.session, started.id, b"\n")
        window = await bench.read(started.id, 0, wait=9, dwell=9, max_bytes=50_000)
    assert window.end_offset == 50_000


async def test_a_character_is_never_cut_in_half(bench) -> None:
    started = await bench.start("printf '\\xe2\\x82'; read line; printf '\\xac!'; sleep 60")
    await bench.until_total(started.id, 2)

    first = await bench.read(started.id, 0)
    assert (first.output, first.end_offset, first.total_bytes) == ("", 0, 2)
    await bench.manager.write(bench.session, started.id, b"\n")
    second = await bench.read(started.id, 0, wait=5)
    assert (second.output, second.end_offset) == ("\u20ac!", 4)


async def test_input_reaches_a_process_and_its_answer_comes_back(bench) -> None:
    started = await bench.start("cat")

    _, written = await bench.manager.write(bench.session, started.id, b"hello\n")
    assert written == 6
    assert await bench.until_printed(started.id, "hello\n") == "hello\n"
    assert bench.manager.input_available(bench.session, started.id)


async def test_input_to_a_process_that_ended_is_a_clear_error(bench) -> None:
    started = await bench.start("true")
    await bench.end_of(started.id)

    with pytest.raises(InvalidArguments, match="has ended; nothing was written"):
        await bench.manager.write(bench.session, started.id, b"hello\n")


async def test_input_that_a_process_has_closed_is_a_clear_error(bench) -> None:
    started = await bench.start("exec 0<&-; echo closed; sleep 60")
    await bench.until_printed(started.id, "closed")

    with pytest.raises(InvalidArguments, match="Broken pipe"):
        await bench.manager.write(bench.session, started.id, b"hello\n")


async def test_too_much_input_at_once_is_refused(bench) -> None:
    await bench.remake(longest_input_bytes=10)
    started = await bench.start("cat")

    with pytest.raises(InvalidArguments, match="more than 10"):
        await bench.manager.write(bench.session, started.id, b"hello world\n")


async def test_a_stop_does_not_wait_for_blocked_input(bench) -> None:
    started = await bench.start("sleep 60")
    raised = []

    async def write() -> None:
        try:
            await bench.manager.write(bench.session, started.id, b"x" * 1_000_000)
        except InvalidArguments as error:
            raised.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        record = await bench.stop(started.id)
    assert record.terminal_cause == "requested_stop"
    assert "ended while input was being written" in raised[0]


async def test_cancelled_input_leaves_the_process_to_be_written_to(bench) -> None:
    started = await bench.start("read -r -N 1 line; cat >/dev/null; echo all")

    with anyio.move_on_after(0.01):
        await bench.manager.write(bench.session, started.id, b"x" * 1_000_000)
    await bench.manager.write(bench.session, started.id, b"y")
    assert (await bench.stop(started.id)).status == "stopped"


async def test_stop_ends_grandchildren_that_ignore_the_soft_signal(bench) -> None:
    started = await bench.start(
        "trap '' TERM; setsid bash -c 'trap \"\" TERM; echo $$; sleep 60; sleep 60' & "
        "sleep 60; sleep 60"
    )
    pid = int(await bench.until_printed(started.id, "\n"))
    record = await bench.stop(started.id)

    assert (record.status, record.terminal_cause) == ("stopped", "requested_stop")
    assert not bench.is_alive(pid)
    assert not bench.is_alive(record.pid)
    await bench.until_told("stopped")
    assert [(e.type, e.cause) for e in bench.events][-1] == ("stopped", "requested_stop")


async def test_a_second_stop_returns_the_same_record(bench) -> None:
    started = await bench.start("sleep 60")

    assert await bench.stop(started.id) == await bench.stop(started.id)


async def test_two_stops_at_once_both_return_the_end(bench) -> None:
    started = await bench.start("trap '' TERM; sleep 60; sleep 60")
    found = []

    async def stop() -> None:
        found.append(await bench.stop(started.id))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        tasks.start_soon(stop)
    assert found[0] == found[1]
    assert len(bench.told("stopped")) <= 1


async def test_a_process_of_another_session_is_unknown_to_everything(bench) -> None:
    started = await bench.start("sleep 60", owner=Owner("main_agent", "main", "another"))
    manager = bench.manager

    assert manager.list(bench.session) == ()
    for process_id in (started.id, "proc-00000000", "../x"):
        for call in (
            lambda which: manager.write(bench.session, which, b"x"),
            lambda which: manager.stop(bench.session, which),
            bench.read,
            lambda which: manager.resize(bench.session, which, 80, 24),
        ):
            with pytest.raises(UnknownProcess, match="No background process of this session"):
                await call(process_id)
        with pytest.raises(UnknownProcess):
            manager.update(bench.session, process_id, "detached")
        with pytest.raises(UnknownProcess):
            manager.get(bench.session, process_id)
    assert bench.is_alive(started.pid)


async def test_processes_are_listed_in_the_order_of_their_starts(bench) -> None:
    ids = [(await bench.start("sleep 60")).id for _ in range(3)]

    assert [record.id for record in bench.manager.list(bench.session)] == ids
    assert bench.manager.get(bench.session, ids[1]).id == ids[1]


@pytest.mark.parametrize("command", ["", "  \n"])
async def test_a_blank_command_is_refused_and_leaves_nothing(bench, command) -> None:
    with pytest.raises(InvalidArguments, match="blank"):
        await bench.start(command)
    assert os.listdir(bench.folder / "processes") == []


async def test_a_start_without_an_owner_is_refused(bench) -> None:
    with pytest.raises(InvalidArguments, match="session that own it"):
        await bench.start("true", owner=Owner("main_agent", "main", ""))


async def test_a_command_that_cannot_be_started_leaves_no_record(bench) -> None:
    with pytest.raises(InvalidArguments, match="longer than the system takes"):
        await bench.start(f"echo {'x' * 200_000}")
    assert os.listdir(bench.folder / "processes") == []
    assert os.listdir(bench.folder / "logs") == []
    assert bench.manager.list(bench.session) == ()


async def test_the_completion_mode_of_a_running_process_can_be_changed(bench) -> None:
    started = await bench.start("sleep 60")

    record = bench.manager.update(bench.session, started.id, "detached")
    assert record.completion_mode == "detached"
    assert bench.events[-1].type == "updated"
    with pytest.raises(InvalidArguments, match="no completion mode"):
        bench.manager.update(bench.session, started.id, "later")
    await bench.stop(started.id)
    with pytest.raises(InvalidArguments, match="has ended"):
        bench.manager.update(bench.session, started.id, "resume")


async def test_a_completion_is_owed_after_a_natural_exit_until_somebody_took_it(bench) -> None:
    started = await bench.start("true")
    manager = bench.manager
    await bench.end_of(started.id)

    assert manager.completion_pending(bench.session, started.id)
    record = manager.completion_delivered(bench.session, started.id, " main ")
    assert record.completion_consumed_by == "main"
    assert record.completion_delivered_at != ZERO_TIME
    assert not manager.completion_pending(bench.session, started.id)
    assert manager.completion_delivered(bench.session, started.id, "another") == record


async def test_nothing_is_owed_for_a_stop_a_detached_or_a_running_process(bench) -> None:
    manager = bench.manager
    running = await bench.start("sleep 60")
    detached = await bench.start("true", completion_mode="detached")
    await bench.end_of(detached.id)

    assert not manager.completion_pending(bench.session, running.id)
    assert not manager.completion_pending(bench.session, detached.id)
    with pytest.raises(InvalidArguments, match="no completion"):
        manager.completion_delivered(bench.session, running.id, "main")
    await bench.stop(running.id)
    assert not manager.completion_pending(bench.session, running.id)


async def test_cleanup_ends_session_processes_and_leaves_managed_ones(bench) -> None:
    session = await bench.start("sleep 60")
    managed = await bench.start("sleep 60", lifecycle="managed")

    cleaned = await bench.manager.cleanup(bench.session)
    assert [record.id for record in cleaned] == [session.id]
    assert not bench.is_alive(session.pid)
    assert bench.is_alive(managed.pid)
    assert [event.process.id for event in bench.told("cleaned_up")] == [session.id]


async def test_closing_ends_managed_processes_too(bench) -> None:
    managed = await bench.start("sleep 60", lifecycle="managed")

    await bench.manager.aclose()
    assert not bench.is_alive(managed.pid)
    content = (bench.folder / "processes" / f"{managed.id}.json").read_text()
    assert json.loads(content)["terminal_cause"] == "requested_stop"


async def test_the_log_is_raw_and_what_is_returned_is_masked(bench) -> None:
    started = await bench.start(f"echo the {bench.secret} is; false {bench.secret}")
    record = await bench.end_of(started.id)

    assert bench.secret in (bench.folder / "logs" / f"{record.id}.log").read_text()
    assert bench.secret in (bench.folder / "processes" / f"{record.id}.json").read_text()
    assert (await bench.read(record.id)).output == "the [REDACTED] is\n"
    assert "[REDACTED]" in record.command
    await bench.until_told("failed")
    for shown in (record, bench.manager.list(bench.session), bench.events):
        assert bench.secret not in repr(shown)


async def test_a_secret_across_a_read_boundary_is_masked_once(bench) -> None:
    started = await bench.start(f"echo the {bench.secret} is")
    total = (await bench.end_of(started.id)).total_bytes

    for size in (1, 3, 9, 14):
        parts, at = [], 0
        while at < total:
            window = await bench.read(started.id, at, max_bytes=size)
            parts.append(window.output)
            at = window.end_offset
        assert "".join(parts) == "the [REDACTED] is\n"
    assert bench.secret[-5:] not in (await bench.read(started.id, max_bytes=8)).output


async def test_a_child_that_holds_the_output_does_not_hold_up_the_end(bench) -> None:
    started = await bench.start("(sleep 60 &); echo done")

    record = await bench.end_of(started.id)
    assert record.status == "stopped"
    assert (await bench.read(started.id)).output == "done\n"


async def test_a_lost_launcher_fails_its_processes_and_says_so(bench) -> None:
    started = await bench.start("sleep 60")
    bench.supervisor._nursery.kill(next(iter(bench.supervisor._all_launchers))._launch)

    record = await bench.end_of(started.id)
    assert (record.status, record.exit_code) == ("failed", -1)
    assert "was ended, and with it this one" in record.last_error


async def test_a_managed_process_is_in_its_record_before_it_may_outlive_the_worker(
    bench, monkeypatch
) -> None:
    noted: list[dict[str, object]] = []

    async def leave_at_crash(child: object, log: int) -> None:
        (file,) = (bench.folder / "processes").glob("*.json")
        noted.append(json.loads(file.read_text()))

    monkeypatch.setattr(bench.supervisor, "leave_at_crash", leave_at_crash)
    record = await bench.start("sleep 1000", lifecycle="managed")
    (before,) = noted
    assert (before["status"], before["pid"]) == ("running", record.pid)
    assert before["process_start_time"] == record.process_start_time
