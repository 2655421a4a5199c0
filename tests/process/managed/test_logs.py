from __future__ import annotations

import errno
import hashlib
import os
import sys

import pytest

from moorage.process.kept.log import OutputLog, recover_tails
from moorage.process.kept.window import unfinished


@pytest.fixture
def folder(tmp_path):
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def log(folder):
    log = OutputLog(folder, "proc-1")
    log.create()
    yield log
    log.close()


async def test_an_ended_log_shrinks_to_its_tail_and_old_offsets_are_answered_from_there(
    bench,
) -> None:
    await bench.remake(kept_log_bytes=8192)
    started = await bench.start("seq -w 1 20000")
    record = await bench.end_of(started.id)

    path = bench.folder / "logs" / f"{record.id}.log"
    assert path.stat().st_size == 8192
    assert record.total_bytes == 120_000
    assert record.log_base_offset == 120_000 - 8192
    assert record.log_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    window = await bench.read(record.id, 5)
    assert window.start_offset == record.log_base_offset
    assert window.end_offset == window.total_bytes == 120_000
    assert window.output.endswith("20000\n")
    await bench.remake()
    again = await bench.read(record.id, 5)
    assert (again.output, again.start_offset) == (window.output, window.start_offset)


async def test_a_live_log_is_bounded_too(bench) -> None:
    await bench.remake(live_log_bytes=100_000, kept_log_bytes=10_000, take_bytes=8192)
    started = await bench.start("seq -w 1 99999; read line", lifecycle="managed")
    await bench.until_total(started.id, 599_994)

    assert (bench.folder / "logs" / f"{started.id}.log").stat().st_size <= 110_000
    window = await bench.read(started.id)
    assert window.output.endswith("99999\n")
    assert window.process.log_base_offset > 400_000


def test_an_interrupted_cut_is_finished_or_undone(log, folder, tmp_path) -> None:
    (tmp_path / "proc-1.7.tail").write_bytes(b"tail")
    (tmp_path / "proc-2.9.tail").write_bytes(b"not noted")
    (tmp_path / "proc-3.log").write_bytes(b"whole")

    recover_tails(folder, {"proc-1": 7, "proc-2": 0, "proc-3": 0})
    assert (tmp_path / "proc-1.log").read_bytes() == b"tail"
    assert sorted(os.listdir(tmp_path)) == ["proc-1.log", "proc-3.log"]


def test_a_cut_that_finds_no_room_changes_nothing(log, tmp_path) -> None:
    log.append(b"0123456789")

    def fail(base: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        log.cut(4, fail)
    assert (log.base, log.read(0, 10)) == (0, b"0123456789")
    assert os.listdir(tmp_path) == ["proc-1.log"]


def test_a_log_can_be_cut_and_read_once_it_is_closed(log) -> None:
    log.append(b"0123456789")
    log.close()
    log.cut(4, lambda _: None)
    assert (log.base, log.total, log.read(0, 10)) == (6, 10, b"6789")
    log.cut(4, lambda _: None)
    assert log.read(8, 8) == b""


def test_a_log_that_is_missing_or_no_file_reads_as_empty(folder, tmp_path) -> None:
    (tmp_path / "elsewhere").write_text("secret")
    (tmp_path / "proc-2.log").symlink_to("elsewhere")
    (tmp_path / "proc-3.log").mkdir()
    os.mkfifo(tmp_path / "proc-4.log")
    for name in ("proc-1", "proc-2", "proc-3", "proc-4"):
        log = OutputLog(folder, name)
        log.find()
        assert (log.total, log.read(0, 10)) == (0, b"")
    OutputLog(folder, "proc-1").remove()


async def test_a_full_disk_costs_output_and_not_the_process(bench, monkeypatch) -> None:
    started = await bench.start("echo before; read line; echo lost; exit 3")
    await bench.until_printed(started.id, "before")
    real = os.write
    log = bench.manager._ledger.find(bench.session, started.id).log

    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "splice", fail)
    monkeypatch.setattr(os, "write", lambda fd, data: fail() if fd == log.fd else real(fd, data))
    await bench.manager.write(bench.session, started.id, b"\n")
    record = await bench.end_of(started.id)
    assert record.exit_code == 3
    assert "5 bytes of output could not be logged: No space left on device" in record.last_error
    assert (await bench.read(started.id)).output == "before\n"


async def test_a_system_without_splice_copies(bench, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "splice", fail)
    started = await bench.start("seq 1 3")
    await bench.end_of(started.id)
    assert (await bench.read(started.id)).output == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"a", 0),
        ("\u00e9".encode(), 0),
        ("\u00e9".encode()[:1], 1),
        ("\u20ac".encode()[:2], 2),
        ("\U0001f600".encode()[:3], 3),
        ("\U0001f600".encode(), 0),
        (b"\x80\x80\x80\x80", 0),
        (b"\xff", 0),
    ],
)
def test_only_a_character_that_can_still_be_completed_is_held_back(data, length) -> None:
    assert unfinished(data) == length


async def test_a_window_smaller_than_a_character_gives_it_whole(bench) -> None:
    started = await bench.start("printf '\\xe2\\x82\\xac\\xe2\\x82\\xacx'")
    await bench.end_of(started.id)

    first = await bench.read(started.id, 0, max_bytes=1)
    second = await bench.read(started.id, first.end_offset, max_bytes=4)
    assert (first.output, second.output) == ("\u20ac", "\u20acx")
    assert (await bench.read(started.id, max_bytes=3)).output == "x"


async def test_bytes_that_are_no_text_are_replaced_and_counted(bench) -> None:
    started = await bench.start("printf 'a\\xff\\xe2'")
    await bench.end_of(started.id)

    window = await bench.read(started.id, 0)
    assert (window.output, window.end_offset) == ("a\ufffd\ufffd", 3)


async def test_a_key_that_spans_windows_is_masked_in_each(bench) -> None:
    key = "\n".join(
        ["-----BEGIN RSA PRIVATE KEY-----", *["Ab3d" * 16] * 30, "-----END RSA PRIVATE KEY-----"]
    )
    started = await bench.start("cat; echo; echo end", variables={})
    await bench.manager.write(bench.session, started.id, f"start\n{key}\n".encode())
    await bench.until_total(started.id, len(key) + 7)

    parts, at = [], 0
    while at < len(key) + 7:
        window = await bench.read(started.id, at, max_bytes=300)
        parts.append(window.output)
        at = window.end_offset
    assert "Ab3dAb3d" not in "".join(parts)
    assert "".join(parts).count("[REDACTED]") == 1


async def test_offsets_chain_over_characters_of_several_bytes_after_a_cut(bench) -> None:
    await bench.remake(kept_log_bytes=10_000)
    started = await bench.start("for i in {1..2000}; do printf 'é€\U0001f600x\\n'; done")
    record = await bench.end_of(started.id)
    kept = (bench.folder / "logs" / f"{record.id}.log").read_bytes()
    assert (len(kept), record.total_bytes) == (10_000, 22_000)

    for size in (1, 5, 997, 100_000):
        parts, at = [], 0
        while True:
            window = await bench.read(record.id, at, max_bytes=size)
            assert window.start_offset == max(at, record.log_base_offset)
            assert window.end_offset > window.start_offset
            parts.append(window.output)
            at = window.end_offset
            if not window.truncated:
                break
        assert at == record.total_bytes
        assert "".join(parts) == kept.decode(errors="replace")


def test_output_of_a_terminal_goes_by_a_pipe_that_another_process_can_empty(log) -> None:
    ours, theirs = os.openpty()
    try:
        os.set_blocking(ours, False)
        assert log.descriptors == (log.fd,)
        log.stage()
        log.stage()
        assert len(log.descriptors) == 2
        with pytest.raises(BlockingIOError):
            log.take_terminal(ours, 1024)
        os.write(theirs, b"spoken")
        assert log.take_terminal(ours, 1024) == len("spoken")
    finally:
        os.close(theirs)
    with pytest.raises(OSError, match="Input/output"):
        log.take_terminal(ours, 1024)
    os.close(ours)
    assert log.read(0, 100) == b"spoken"


def test_output_that_the_kernel_cannot_put_into_a_pipe_is_copied(log) -> None:
    counter = os.eventfd(7)
    try:
        log.stage()
        assert log.take_terminal(counter, 1024) == 8
    finally:
        os.close(counter)
    assert log.read(0, 100) == (7).to_bytes(8, sys.byteorder)
