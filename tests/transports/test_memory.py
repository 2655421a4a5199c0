"""The memory pair behaves like a pair of pipes."""

from __future__ import annotations

import anyio
import pytest

from moorage.transports.memory import memory_pair
from moorage.transports.transport import MAX_RECEIVE_BYTES


async def test_what_one_side_sends_the_other_receives() -> None:
    one, other = memory_pair()
    await one.send(b"ping")
    assert await other.receive() == b"ping"
    await other.send(b"pong")
    assert await one.receive() == b"pong"
    await one.watch()
    assert await one.diagnose() == ""


async def test_one_receive_returns_at_most_a_mebibyte() -> None:
    one, other = memory_pair(capacity_bytes=2 * MAX_RECEIVE_BYTES)
    await one.send(b"x" * (MAX_RECEIVE_BYTES + 1))
    assert len(await other.receive()) == MAX_RECEIVE_BYTES
    assert len(await other.receive()) == 1


async def test_a_slow_reader_makes_the_sender_wait() -> None:
    one, other = memory_pair(capacity_bytes=4)
    received = b""
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.send, b"0123456789")
            while len(received) < 10:
                received += await other.receive()
    assert received == b"0123456789"
    assert not one.is_torn


async def test_a_send_cancelled_in_the_middle_tears_the_transport() -> None:
    one, _other = memory_pair(capacity_bytes=4)
    with anyio.move_on_after(0) as scope:
        await one.send(b"0123456789")
    assert scope.cancelled_caught
    assert one.is_torn


async def test_a_send_cancelled_before_its_first_byte_tears_nothing() -> None:
    one, other = memory_pair(capacity_bytes=4)
    await one.send(b"full")
    with anyio.move_on_after(0):
        await one.send(b"more")
    assert not one.is_torn
    assert await other.receive() == b"full"


async def test_the_end_of_sending_is_seen_after_what_was_sent() -> None:
    one, other = memory_pair()
    await one.send(b"last")
    await one.close_sending()
    assert await other.receive() == b"last"
    assert await other.receive() == b""
    with pytest.raises(anyio.ClosedResourceError):
        await one.send(b"x")
    await other.send(b"still")
    assert await one.receive() == b"still"


async def test_sending_to_a_side_that_reads_no_more_fails_also_when_it_waits() -> None:
    one, other = memory_pair(capacity_bytes=4)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                with pytest.raises(anyio.BrokenResourceError):
                    await one.send(b"0123456789")

            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            other.close_receiving()


async def test_closing_ends_both_directions() -> None:
    one, other = memory_pair()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await one.receive()

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            await one.aclose()
    assert await other.receive() == b""
    with pytest.raises(anyio.BrokenResourceError):
        await other.send(b"x")
