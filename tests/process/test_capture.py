from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.process.capture import CaptureLimits, StreamCapture

LIMITS = CaptureLimits(whole_bytes=64, unmasked_bytes=24, head_bytes=16, tail_bytes=32)


class Upper:
    """Masks by turning x into X, and holds back everything until a line ends."""

    def __init__(self) -> None:
        self.held = b""

    def text(self, text: str) -> str:
        return text.replace("x", "X")

    def data(self, data: bytes) -> bytes:
        return data.replace(b"x", b"X")

    def stream(self) -> Upper:
        return Upper()

    def feed(self, data: bytes) -> bytes:
        lines, line_end, self.held = (self.held + data).rpartition(b"\n")
        return self.data(lines + line_end)

    def finish(self) -> bytes:
        held, self.held = self.held, b""
        return self.data(held)


def capture(data: bytes, step: int) -> tuple[StreamCapture, bytes]:
    spilt = bytearray()
    stream = StreamCapture(Upper(), LIMITS, spilt.extend)
    for at in range(0, len(data), step):
        stream.feed(data[at : at + step])
    stream.finish()
    stream.finish()
    return stream, bytes(spilt)


def test_a_small_stream_stays_whole_and_is_masked_and_nothing_is_spilt() -> None:
    stream, spilt = capture(b"xyz\n", 1)
    assert stream.is_whole
    assert stream.data == b"Xyz\n"
    assert (stream.total_bytes, stream.masked_bytes) == (4, 4)
    assert spilt == b""
    assert stream.kept().join() == b"Xyz\n"


def test_a_silent_stream_is_empty() -> None:
    stream, _ = capture(b"", 1)
    assert stream.data == b""
    assert stream.total_bytes == 0


@settings(max_examples=200)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_every_byte_is_counted_and_spilt_in_order_whatever_the_reads(
    data: bytes, step: int
) -> None:
    stream, spilt = capture(data, step)
    masked = Upper().data(data)
    assert stream.total_bytes == len(data)
    assert stream.masked_bytes == len(masked)
    assert stream.is_whole == (len(masked) <= 64)
    assert spilt == (b"" if stream.is_whole else masked)


@settings(max_examples=200)
@given(st.text(max_size=300), st.integers(1, 50), st.integers(1, 20), st.integers(1, 40))
def test_head_and_tail_are_those_of_the_whole_and_cut_no_character(
    text: str, step: int, head: int, tail: int
) -> None:
    data = Upper().data(text.encode("utf-8", "replace"))
    stream, _ = capture(text.encode("utf-8", "replace"), step)
    part = stream.excerpt(head_bytes=head, tail_bytes=tail)
    assert data.startswith(part.head)
    assert data.endswith(part.tail)
    assert len(part.head) + len(part.tail) + part.omitted_bytes == len(data)
    if part.omitted_bytes:
        assert len(part.head) <= head
        assert len(part.tail) <= tail
    part.head.decode()
    part.tail.decode()


def test_a_long_stream_keeps_little_in_memory() -> None:
    stream, spilt = capture(b"0123456789\n" * 10_000, 1000)
    kept = stream.kept()
    assert len(spilt) == 110_000
    assert len(kept.head) == 16
    assert len(kept.tail) == 32
    assert kept.join().startswith(b"0123456789\n01234\n[... 109952 bytes omitted ...]\n")
    assert len(stream._tail) <= 2 * 36
    assert len(stream._head) <= 20


@pytest.mark.parametrize("size", [64, 65])
def test_the_bound_itself_is_still_whole(size: int) -> None:
    stream, _ = capture(b"y" * size, 7)
    assert stream.is_whole is (size == 64)
