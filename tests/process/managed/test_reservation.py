from __future__ import annotations

import errno
import os

import anyio
import pytest

from moorage.errors import InvalidArguments, ProvisionError
from moorage.process.spec import ProgramSpec


def program(spec) -> ProgramSpec:
    return ProgramSpec(argv=("bash", "-c", spec.command), plan=spec.plan, cwd=spec.cwd)


async def test_a_handed_over_command_keeps_its_pid_and_its_output_without_a_gap(bench) -> None:
    spec = bench.spec("echo before; read -t 0.05 <> <(:); echo after; echo wrong >&2; exit 4")
    reservation = bench.manager.reserve(spec)
    with anyio.fail_after(5):
        async with bench.supervisor.open(program(spec)) as child:
            reservation.write(await child.stdout.read())
            pid = child.pid
            record = await bench.manager.adopt(reservation, child)

    assert (record.id, record.pid, record.tty) == (reservation.process_id, pid, False)
    ended = await bench.end_of(record.id)
    assert ended.exit_code == 4
    assert sorted((await bench.read(record.id, 0)).output.split()) == ["after", "before", "wrong"]
    with pytest.raises(InvalidArguments, match="ended"):
        await bench.manager.write(bench.session, record.id, b"x")


async def test_a_handed_over_command_takes_no_input_and_can_be_stopped(bench) -> None:
    spec = bench.spec("sleep 60")
    reservation = bench.manager.reserve(spec)
    async with bench.supervisor.open(program(spec)) as child:
        await child.started()
        record = await bench.manager.adopt(reservation, child)

    assert bench.is_alive(record.pid)
    with pytest.raises(InvalidArguments, match="handed over from the foreground"):
        await bench.manager.write(bench.session, record.id, b"x")
    assert (await bench.stop(record.id)).terminal_cause == "requested_stop"
    assert not bench.is_alive(record.pid)


async def test_a_command_that_ends_in_the_foreground_leaves_nothing(bench) -> None:
    for size in (10, 1_000_000):
        reservation = bench.manager.reserve(bench.spec("true"))
        reservation.write(b"x" * size)
        reservation.discard()
    assert os.listdir(bench.folder / "logs") == []
    assert os.listdir(bench.folder / "processes") == []


async def test_a_long_foreground_output_keeps_its_tail_with_true_offsets(bench) -> None:
    await bench.remake(reserved_memory_bytes=100, reserved_log_bytes=1000, kept_log_bytes=500)
    spec = bench.spec("sleep 60")
    reservation = bench.manager.reserve(spec)
    for number in range(300):
        reservation.write(b"%09d\n" % number)
    async with bench.supervisor.open(program(spec)) as child:
        await child.started()
        record = await bench.manager.adopt(reservation, child)

    window = await bench.read(record.id, 0)
    assert window.total_bytes == 3000
    assert window.start_offset == window.process.log_base_offset > 0
    assert window.output.startswith(f"{window.start_offset // 10:09d}\n")
    assert window.output.endswith("000000299\n")


async def test_a_hand_over_to_a_full_disk_fails_and_leaves_the_child_to_the_caller(
    bench, monkeypatch
) -> None:
    spec = bench.spec("sleep 60")
    reservation = bench.manager.reserve(spec)
    reservation.write(b"x")
    monkeypatch.setattr("moorage.process.kept.log.OutputLog.create", _raiser(errno.ENOSPC))
    async with bench.supervisor.open(program(spec)) as child:
        await child.started()
        with pytest.raises(ProvisionError, match="No space left"):
            await bench.manager.adopt(reservation, child)
        assert child.is_running
    assert not bench.is_alive(child.pid)
    assert bench.manager.list(bench.session) == ()


def _raiser(number: int):
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail
