"""Programs run for their output: pieces, ends, complaints, and children that hold the pipes."""

from __future__ import annotations

import os

import anyio
import pytest

from moorage.process import reading
from moorage.process.child import LARGEST_PIPE_BYTES, PipeReader
from moorage.process.reading import ReadingLimits, read_program
from moorage.process.spec import ProgramSpec
from moorage.process.supervisor import Supervisor

pytestmark = [pytest.mark.needs("landlock")]


def shell(place, script: str) -> ProgramSpec:
    return ProgramSpec(argv=("/bin/sh", "-c", script), plan=place.plan(), cwd=str(place.root))


class Taken:
    """Keeps the output, and has had enough after some of it."""

    def __init__(self, enough: int = 10**9) -> None:
        self.data = b""
        self.pieces = 0
        self._enough = enough

    async def __call__(self, chunk: bytes) -> bool:
        self.data += chunk
        self.pieces += 1
        return len(self.data) >= self._enough


async def test_output_exit_code_and_complaint_are_told(supervisor: Supervisor, place) -> None:
    taken = Taken()
    with anyio.fail_after(5):
        end = await read_program(
            supervisor, shell(place, "echo out; echo wrong >&2; exit 3"), taken
        )
    assert (taken.data, end.complaint, end.status.exit_code) == (b"out\n", b"wrong\n", 3)
    assert not end.is_stopped


async def test_all_of_a_large_output_is_handed_on(supervisor: Supervisor, place) -> None:
    taken = Taken()
    with anyio.fail_after(10):
        await read_program(supervisor, shell(place, "yes | head -c 3000000"), taken)
    assert len(taken.data) == 3_000_000


async def test_small_pieces_are_gathered_and_none_is_lost(supervisor: Supervisor, place) -> None:
    taken = Taken()
    limits = ReadingLimits(small_reads=2, gather_seconds=0.001)
    script = "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done"
    with anyio.fail_after(10):
        await read_program(supervisor, shell(place, script), taken, limits=limits)
    assert taken.data.split() == [b"%d" % number for number in range(200)]


async def test_a_program_is_ended_when_nobody_wants_more(supervisor: Supervisor, place) -> None:
    taken = Taken(enough=1)
    with anyio.fail_after(5):
        end = await read_program(supervisor, shell(place, "echo enough; exec sleep 60"), taken)
    assert end.is_stopped
    assert taken.data == b"enough\n"


async def test_an_error_of_the_taker_is_raised_as_it_is(supervisor: Supervisor, place) -> None:
    async def take(chunk: bytes) -> None:
        raise ZeroDivisionError(chunk)

    with anyio.fail_after(5), pytest.raises(ZeroDivisionError):
        await read_program(supervisor, shell(place, "echo x; exec sleep 60"), take)


async def test_a_child_that_holds_the_pipes_does_not_hold_the_call(
    supervisor: Supervisor, place
) -> None:
    taken = Taken()
    with anyio.fail_after(5):
        end = await read_program(supervisor, shell(place, "sleep 60 & echo done"), taken)
    assert (taken.data, end.status.exit_code) == (b"done\n", 0)


async def test_only_the_end_of_the_complaints_is_kept(supervisor: Supervisor, place) -> None:
    limits = ReadingLimits(complaint_bytes=6, read_bytes=4)
    with anyio.fail_after(5):
        end = await read_program(
            supervisor, shell(place, "echo 0123456789 >&2"), Taken(), limits=limits
        )
    assert end.complaint == b"56789\n"


async def test_a_signal_is_told(supervisor: Supervisor, place) -> None:
    with anyio.fail_after(5):
        end = await read_program(supervisor, shell(place, "kill -9 $$"), Taken())
    assert (end.status.exit_code, end.status.signal) == (None, 9)


@pytest.mark.timeout(5)  # what the program left behind writes as fast as we read, and for ever
async def test_no_more_is_taken_after_the_end_than_a_pipe_holds() -> None:
    taken = Taken()
    waiting = reading._Reading(taken, ReadingLimits())
    reader = PipeReader(os.open("/dev/zero", os.O_RDONLY))
    await waiting.take_waiting(reader, waiting.hand_on)
    assert len(taken.data) == LARGEST_PIPE_BYTES
    reader.close()
