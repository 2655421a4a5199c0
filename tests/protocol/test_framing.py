"""Bytes to frames: any split, the exact bound, linear time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.errors import RemoteProtocolViolation
from moorage.protocol.framing import MAX_FRAME_BYTES, FrameReader

lines = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=8)


@given(lines, st.integers(1, 7))
def test_frames_survive_any_split(frames: list[bytes], step: int) -> None:
    wire = b"".join(frame + b"\n" for frame in frames)
    reader = FrameReader()
    chunks = [wire[i : i + step] for i in range(0, len(wire), step)]
    assert [f for chunk in chunks for f in reader.feed(chunk)] == frames
    assert reader.finish() == []


@given(st.binary(max_size=200), st.lists(st.integers(0, 60), max_size=12))
def test_any_bytes_come_out_as_the_same_frames_however_they_were_cut(
    wire: bytes, steps: list[int]
) -> None:
    whole = FrameReader()
    expected = [*whole.feed(wire), *whole.finish()]
    cut, found, rest = FrameReader(), [], wire
    for step in [*steps, len(wire)]:
        found += cut.feed(rest[:step])
        rest = rest[step:]
    assert [*found, *cut.finish()] == expected


def test_a_last_line_without_a_newline_is_still_a_frame() -> None:
    reader = FrameReader()
    assert reader.feed(b"one\ntwo") == [b"one"]
    assert reader.finish() == [b"two"]
    assert reader.finish() == []


@pytest.mark.parametrize("step", [64 * 1024, MAX_FRAME_BYTES])
def test_a_frame_of_exactly_16_mib_with_its_newline_is_accepted(step: int) -> None:
    wire = b"x" * (MAX_FRAME_BYTES - 1) + b"\n"
    reader = FrameReader()
    frames = [f for i in range(0, len(wire), step) for f in reader.feed(wire[i : i + step])]
    assert [len(frame) for frame in frames] == [MAX_FRAME_BYTES - 1]


@pytest.mark.parametrize("ending", [b"\n", b""])
def test_one_byte_more_than_16_mib_fails_for_good(ending: bytes) -> None:
    reader = FrameReader()
    with pytest.raises(RemoteProtocolViolation, match="16777216"):
        reader.feed(b"x" * MAX_FRAME_BYTES + ending)
    for attempt in (lambda: reader.feed(b"\n"), reader.finish):
        with pytest.raises(RemoteProtocolViolation):
            attempt()


def test_an_over_long_line_fails_as_soon_as_it_is_too_long_not_at_its_newline() -> None:
    reader = FrameReader(max_frame_bytes=8)
    assert reader.feed(b"1234") == []
    with pytest.raises(RemoteProtocolViolation):
        reader.feed(b"5678")


def test_frames_before_an_over_long_one_are_still_returned() -> None:
    reader = FrameReader(max_frame_bytes=8)
    assert reader.feed(b"good\n" + b"x" * 9) == [b"good"]
    assert reader.failure is not None
    with pytest.raises(RemoteProtocolViolation):
        reader.feed(b"\n")


def test_a_long_line_in_small_pieces_is_kept_in_few_and_comes_out_whole() -> None:
    reader = FrameReader()
    for _ in range(10_000):
        assert reader.feed(b"abc") == []
        assert len(reader._pieces) == 1
    assert reader.feed(b"x" * 5000) == []
    assert reader.feed(b"d") == []
    assert len(reader._pieces) == 3
    assert reader.feed(b"\n") == [b"abc" * 10_000 + b"x" * 5000 + b"d"]
    assert reader._pieces == []


def test_every_piece_of_a_long_line_is_looked_at_once() -> None:
    class Counted(bytes):
        splits = 0

        def split(self, *args: object) -> list[bytes]:  # type: ignore[override]
            Counted.splits += 1
            return super().split(*args)  # type: ignore[arg-type]

    reader = FrameReader()
    pieces = [Counted(b"x" * 5000) for _ in range(100)]
    for piece in pieces:
        reader.feed(piece)
    assert Counted.splits == 100
    assert reader._pieces == pieces
