"""One stream that carries two outputs: taken apart whatever pieces it comes in."""

from __future__ import annotations

import socket

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.transports.multiplexed import Demultiplexer, MultiplexedTransport
from moorage.transports.unix_socket import UnixSocketTransport

OUTPUT, ERRORS = 1, 2


def piece(output: int, data: bytes) -> bytes:
    return bytes([output, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@given(
    pieces=st.lists(st.tuples(st.sampled_from((OUTPUT, ERRORS)), st.binary(max_size=20))),
    size=st.integers(1, 30),
)
def test_the_outputs_come_apart_however_the_stream_is_cut(
    pieces: list[tuple[int, bytes]], size: int
) -> None:
    stream = b"".join(piece(*each) for each in pieces)
    parts = Demultiplexer()
    output = b"".join(parts.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert output == b"".join(data for kind, data in pieces if kind == OUTPUT)
    assert parts.complaints == b"".join(data for kind, data in pieces if kind == ERRORS)


def test_of_long_complaints_the_end_is_kept() -> None:
    parts = Demultiplexer()
    parts.feed(piece(ERRORS, b"a" * 10_000) + piece(ERRORS, b"the end"))
    assert len(parts.complaints) == 8192
    assert parts.complaints.endswith(b"athe end")


@pytest.fixture
def pair() -> tuple[MultiplexedTransport, socket.socket]:
    ours, theirs = socket.socketpair()

    async def diagnose() -> str:
        return "it exited with 3"

    stream = UnixSocketTransport(ours, grace_seconds=5)
    first = piece(OUTPUT, b"at once")
    return MultiplexedTransport(stream, first[:4], diagnose), theirs


async def test_a_program_is_spoken_to_and_its_last_words_are_told(pair) -> None:
    ours, theirs = pair
    theirs.sendall(piece(OUTPUT, b"at once")[4:])
    theirs.sendall(piece(ERRORS, b"alas\n"))
    with anyio.fail_after(5):
        assert await ours.receive() == b"at once"
        await ours.send(b"asked")
        assert theirs.recv(100) == b"asked"
        await ours.close_sending()
        assert theirs.recv(100) == b""
        theirs.close()
        assert await ours.receive() == b""
        assert not ours.is_torn
        assert await ours.diagnose() == "it exited with 3; its last words: alas"
        await ours.watch()
        await ours.aclose()
