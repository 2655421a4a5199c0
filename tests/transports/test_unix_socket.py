"""A private socket: whole bytes, both ends of the end, long paths, and nobody else."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import anyio
import pytest

from moorage.errors import ShutdownIncomplete
from moorage.transports.private_sockets import check_peer, connect, listen
from moorage.transports.unix_socket import UnixSocketTransport

Pair = tuple[UnixSocketTransport, UnixSocketTransport]


@pytest.fixture
def pair() -> Pair:
    ours, theirs = socket.socketpair()
    return (
        UnixSocketTransport(ours, grace_seconds=0.05, about="It logs."),
        UnixSocketTransport(theirs),
    )


async def test_bytes_arrive_whole_while_the_other_side_is_slow(pair: Pair) -> None:
    ours, theirs = pair
    data = os.urandom(3_000_000)
    got = b""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.send, data)
            while len(got) < len(data):
                got += await theirs.receive()
    assert got == data
    assert not ours.is_torn
    await theirs.aclose()
    await ours.aclose()


async def test_closing_lets_the_other_side_finish(pair: Pair) -> None:
    ours, theirs = pair
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.aclose)
            assert await theirs.receive() == b""
            await theirs.send(b"the last reply")
            await theirs.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await ours.send(b"more")


async def test_who_does_not_finish_in_time_is_told_of(pair: Pair) -> None:
    ours, theirs = pair
    with anyio.fail_after(5), pytest.raises(ShutdownIncomplete, match=r"by itself\. It logs\."):
        await ours.aclose()
    await theirs.aclose()


async def test_it_can_stop_hearing_and_still_speak(pair: Pair) -> None:
    ours, theirs = pair
    theirs.close_receiving()
    with anyio.fail_after(5):
        assert await theirs.receive() == b""
        await theirs.send(b"still here")
        assert await ours.receive() == b"still here"
        await ours.watch()
        assert await ours.diagnose() == "It logs."
        await theirs.aclose()
        await ours.aclose()


async def test_sending_to_one_that_left_is_broken(pair: Pair) -> None:
    ours, theirs = pair
    await theirs.aclose()
    with anyio.fail_after(5), pytest.raises(anyio.BrokenResourceError):
        await ours.send(b"x" * 10_000_000)
    await ours.aclose()


def test_a_path_may_be_as_long_as_it_likes_and_is_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("deeper" * 20)
    folder.mkdir(parents=True)
    path = folder / "socket"
    with listen(path), connect(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    with listen(path), connect(path):
        pass
    path.unlink()
    with pytest.raises(FileNotFoundError):
        connect(path)


def test_a_full_queue_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listen(path) as listening:
        listening.listen(0)
        with connect(path), pytest.raises(BlockingIOError):
            connect(path)


def test_a_socket_that_cannot_be_made_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "socket").mkdir()
    with pytest.raises(OSError, match=r"directory|permitted"):
        listen(tmp_path / "socket")
    with pytest.raises(FileNotFoundError):
        listen(tmp_path / "missing" / "socket")


def test_another_user_at_the_other_side_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        check_peer(ours)
        with pytest.raises(PermissionError, match="runs as user"):
            check_peer(ours, lambda: os.geteuid() + 1)
