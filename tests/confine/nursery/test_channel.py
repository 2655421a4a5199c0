from __future__ import annotations

import fcntl
import os
import socket

import pytest

from moorage.confine.nursery.channel import INLINE_BYTES, Channel
from moorage.confine.nursery.messages import Kind, Message


@pytest.fixture
def ends():
    one, other = Channel.pair()
    ends = one, Channel(other)
    yield ends
    for end in ends:
        end.close()


def test_descriptors_arrive_closed_to_future_children(ends) -> None:
    ours, theirs = ends
    reading, writing = os.pipe()
    try:
        assert ours.try_send(Message(Kind.COUNT, 7), (writing,))
        message, (received,) = theirs.receive()
        assert message == Message(Kind.COUNT, 7)
        assert fcntl.fcntl(received, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        os.write(received, b"through")
        assert os.read(reading, 10) == b"through"
        os.close(received)
    finally:
        os.close(reading)
        os.close(writing)


def test_a_large_message_travels_beside_its_descriptors(ends) -> None:
    ours, theirs = ends
    message = Message(Kind.SPAWN, 1, (), ((b"x" * (3 * INLINE_BYTES),),))
    assert ours.try_send(message, (0, 1))
    received, descriptors = theirs.receive()
    assert received == message
    assert len(descriptors) == 2
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_full_socket_asks_to_wait_and_loses_nothing(ends) -> None:
    ours, theirs = ends
    sent = 0
    while ours.try_send(Message(Kind.COUNT, sent, (), ((b"x" * 4000,),)), (0,)):
        sent += 1
    assert sent > 10
    for expected in range(sent):
        message, descriptors = theirs.receive()
        assert message.call == expected
        os.close(descriptors[0])
    with pytest.raises(BlockingIOError):
        theirs.receive()
    assert ours.try_send(Message(Kind.COUNT, sent))


def test_the_end_is_seen_by_reader_and_writer(ends) -> None:
    ours, theirs = ends
    theirs.close()
    assert ours.receive() is None
    with pytest.raises(BrokenPipeError):
        ours.try_send(Message(Kind.COUNT))


def test_an_end_with_unread_messages_is_an_end() -> None:
    ours, theirs = Channel.pair()
    assert ours.try_send(Message(Kind.COUNT))
    theirs.close()
    assert ours.receive() is None
    ours.close()


def test_an_end_can_be_taken_over_by_its_descriptor() -> None:
    ours, theirs = Channel.pair()
    other = Channel.of(theirs.detach())
    assert other.fileno() >= 0
    assert isinstance(other._connection, socket.socket)
    assert ours.try_send(Message(Kind.COUNT, 3))
    assert other.receive() == (Message(Kind.COUNT, 3), [])
    ours.close()
    other.close()
