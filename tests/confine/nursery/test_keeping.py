from __future__ import annotations

import os
import select

import pytest

from moorage.confine.nursery import keeping
from moorage.confine.nursery.keeping import Keeping


@pytest.fixture
def log(tmp_path):
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


@pytest.fixture
def pipe():
    source, end = os.pipe()
    os.set_blocking(source, False)
    yield source, end
    os.close(source)


def turn(kept: Keeping, poll: select.poll) -> int:
    """Move what has come; return how many sources had something."""
    ready = dict(poll.poll(0))
    kept.pump(ready, poll)
    return len(ready)


def test_output_goes_on_behind_what_the_worker_wrote(tmp_path, log, pipe) -> None:
    kept, poll = Keeping(), select.poll()
    os.write(log, b"before ")
    kept.keep(3, (log, pipe[0]))
    kept.take_over(poll)
    assert list(kept.calls) == [3]
    os.write(pipe[1], b"after")

    assert turn(kept, poll) == 1
    assert turn(kept, poll) == 0
    os.close(pipe[1])
    turn(kept, poll)
    assert turn(kept, poll) == 0
    kept.close()
    assert (tmp_path / "log").read_bytes() == b"before after"
    assert not kept.calls


def test_what_a_worker_was_just_moving_comes_before_what_comes_now(tmp_path, log, pipe) -> None:
    kept, poll = Keeping(), select.poll()
    stage, end = os.pipe2(os.O_NONBLOCK)
    try:
        kept.keep(3, (log, stage, pipe[0]))
        os.write(pipe[1], b" second")
        os.write(end, b"first")
    finally:
        os.close(stage)
        os.close(end)

    kept.take_over(poll)
    turn(kept, poll)
    kept.close()
    assert (tmp_path / "log").read_bytes() == b"first second"


def test_what_is_left_at_the_end_is_moved(tmp_path, log, pipe) -> None:
    kept = Keeping()
    kept.keep(3, (log, pipe[0]))
    os.write(pipe[1], b"last")
    kept.close()
    assert (tmp_path / "log").read_bytes() == b"last"
    kept.keep(4, (log, pipe[0]))
    os.close(pipe[1])
    kept.close()


def test_a_later_order_replaces_an_earlier_one(tmp_path, log, pipe) -> None:
    kept, poll = Keeping(), select.poll()
    first = os.open(tmp_path / "first", os.O_RDWR | os.O_CREAT)
    kept.keep(3, (first, pipe[0]))
    kept.keep(3, (log, pipe[0]))
    kept.forget(9)
    kept.take_over(poll)
    os.write(pipe[1], b"x")
    turn(kept, poll)
    assert (os.fstat(first).st_size, os.fstat(log).st_size) == (0, 1)
    os.close(first)
    os.close(pipe[1])
    kept.close()


def test_a_log_does_not_grow_without_end_and_a_full_disk_ends_nothing(
    monkeypatch, tmp_path, log, pipe
) -> None:
    monkeypatch.setattr(keeping, "MOST_LOGGED_BYTES", 4)
    full = os.open("/dev/full", os.O_RDWR)
    kept, poll = Keeping(), select.poll()
    kept.keep(3, (log, pipe[0]))
    kept.keep(4, (full, pipe[0]))
    kept.take_over(poll)
    for _ in range(6):
        os.write(pipe[1], b"1234")
        turn(kept, poll)
    assert (tmp_path / "log").stat().st_size <= 4
    os.close(full)
    os.close(pipe[1])
    kept.close()
