"""How output gets from its source into its log, where the kernel's answers matter."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import anyio
import pytest

from moorage.process.child import PipeReader
from moorage.process.managed.limits import ManagedLimits
from moorage.process.managed.pump import Pump

END = OSError(errno.EIO, "Input/output error")


class ScriptedLog:
    """A log whose source answers as a test says: with a number of bytes, or an error."""

    def __init__(self, answers: list[int | OSError]) -> None:
        self.answers = answers
        self.taken = 0
        self.problem = ""

    def copy(self, _source: int, _most: int) -> int:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        self.taken += answer
        return answer

    take = take_terminal = copy


@pytest.fixture
def terminal() -> Iterator[PipeReader]:
    master, slave = os.openpty()
    reader = PipeReader(master)
    yield reader
    reader.close()
    os.close(slave)


def pump(source: PipeReader, log: ScriptedLog) -> Pump:
    return Pump(source, log, lambda: None, ManagedLimits())  # type: ignore[arg-type]


async def test_what_comes_between_the_look_and_the_end_of_a_terminal_is_not_lost(
    terminal: PipeReader,
) -> None:
    log = ScriptedLog([10, END, 7, END, END])
    with anyio.fail_after(5):
        await pump(terminal, log).run()
    assert (log.taken, log.answers, terminal.is_at_end) == (17, [], True)


async def test_the_last_words_are_taken_without_waiting_too(terminal: PipeReader) -> None:
    log = ScriptedLog([END, 7, BlockingIOError(errno.EAGAIN, "not yet")])
    pump(terminal, log).take_waiting()
    assert (log.taken, terminal.is_at_end) == (7, False)


async def test_another_error_of_the_source_is_kept_as_the_problem_of_its_log(
    terminal: PipeReader,
) -> None:
    log = ScriptedLog([3, OSError(errno.EBADF, "Bad file descriptor")])
    it = pump(terminal, log)
    with anyio.fail_after(5):
        await it.run()
    assert it.ended.is_set()
    assert (log.taken, log.problem) == (3, "[Errno 9] Bad file descriptor")
