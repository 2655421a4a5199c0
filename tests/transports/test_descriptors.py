"""Reading and writing descriptors without blocking."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from moorage.transports.descriptors import FdReader, FdWriter
from moorage.transports.stdio import FdTransport


async def test_bytes_pass_through_a_pipe_whatever_their_size() -> None:
    read_fd, write_fd = os.pipe()
    reader, writer = FdReader(read_fd), FdWriter(write_fd)
    sent, received = os.urandom(1_000_000), b""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.send, sent)
            while len(received) < len(sent):
                received += await reader.receive()
    assert received == sent
    assert not writer.is_torn
    writer.close()
    assert await reader.receive() == b""
    reader.close()


async def test_a_send_cancelled_in_the_middle_tears_and_one_before_its_first_byte_does_not() -> (
    None
):
    read_fd, write_fd = os.pipe()
    writer = FdWriter(write_fd)
    with anyio.move_on_after(0):
        await writer.send(b"x" * 10_000_000)
    assert writer.is_torn
    writer = FdWriter(os.dup(write_fd))
    with anyio.move_on_after(0):
        await writer.send(b"y" * 10_000_000)
    assert not writer.is_torn
    for fd in (read_fd, write_fd):
        os.close(fd)
    writer.close()


async def test_a_reader_that_went_away_breaks_the_writer() -> None:
    read_fd, write_fd = os.pipe()
    writer = FdWriter(write_fd)
    os.close(read_fd)
    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(b"x")
    writer.close()


async def test_closing_wakes_who_waits_and_is_safe_to_repeat() -> None:
    read_fd, write_fd = os.pipe()
    reader = FdReader(read_fd)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await reader.receive()

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            reader.close()
    reader.close()
    with pytest.raises(anyio.ClosedResourceError):
        await reader.receive()
    os.close(write_fd)


async def test_a_descriptor_that_blocked_before_is_given_back_blocking() -> None:
    read_fd, write_fd = os.pipe()
    other = os.dup(read_fd)
    reader = FdReader(read_fd)
    assert not os.get_blocking(other)
    reader.close()
    assert os.get_blocking(other)
    os.set_blocking(write_fd, False)
    kept = os.dup(write_fd)
    FdWriter(write_fd).close()
    assert not os.get_blocking(kept)
    os.close(other)
    os.close(kept)


async def test_a_regular_file_and_the_null_device_are_read_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "frames"
    path.write_bytes(b"line\n")
    for name, expected in ((str(path), b"line\n"), (os.devnull, b"")):
        reader = FdReader(os.open(name, os.O_RDONLY))
        assert await reader.receive() == expected
        assert await reader.receive() == b""
        reader.close()


async def test_a_regular_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    writer = FdWriter(os.open(path, os.O_WRONLY | os.O_CREAT))
    await writer.send(b"x" * 1_000_000)
    writer.close()
    assert path.stat().st_size == 1_000_000


async def test_a_descriptor_that_cannot_be_read_is_broken() -> None:
    reader = FdReader(os.open("/", os.O_RDONLY))
    with pytest.raises(anyio.BrokenResourceError):
        await reader.receive()
    reader.close()


async def test_a_transport_of_two_descriptors_reads_one_and_writes_the_other() -> None:
    their_read, our_write = os.pipe()
    our_read, their_write = os.pipe()
    transport = FdTransport(our_read, our_write)
    await transport.send(b"ping")
    assert os.read(their_read, 10) == b"ping"
    os.write(their_write, b"pong")
    assert await transport.receive() == b"pong"
    await transport.close_sending()
    assert os.read(their_read, 10) == b""
    assert not transport.is_torn
    await transport.watch()
    assert await transport.diagnose() == ""
    await transport.aclose()
    os.close(their_read)
    os.close(their_write)


async def test_a_wake_up_without_bytes_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [BlockingIOError(), b"after all"]

    def read(fd: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, bytes):
            return answer
        raise answer

    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"x")
    reader = FdReader(read_fd)
    monkeypatch.setattr("moorage.transports.descriptors.os.read", read)
    assert await reader.receive() == b"after all"
    reader.close()
    os.close(write_fd)


async def test_a_regular_file_that_takes_little_at_a_time_is_written_whole(tmp_path: Path) -> None:
    class Short(FdWriter):
        def _write(self, data: bytes | memoryview) -> int:
            return super()._write(data[:2])

    path = tmp_path / "out"
    writer = Short(os.open(path, os.O_WRONLY | os.O_CREAT))
    await writer.send(b"frames")
    writer.close()
    assert path.read_bytes() == b"frames"
    assert not writer.is_torn
