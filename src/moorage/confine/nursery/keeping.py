"""Calls that outlive a lost worker: the launcher goes on moving their output into their logs."""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

READ_BYTES = 64 * 1024

MOST_LAST_READS = 64
"""Enough for all that a pipe or a terminal can hold when everybody who wrote to it has ended."""

MOST_LOGGED_BYTES = 256 * 1024 * 1024
"""A log does not grow beyond this while no worker is there to cut it; the rest is dropped."""


class Kept:
    """The output of one kept call."""

    def __init__(self, log: int, sources: Sequence[int]) -> None:
        """Hold copies of the descriptors."""
        self.log = os.dup(log)
        self.sources = [os.dup(source) for source in sources]

    def move_waiting(self) -> None:
        """Move what lies in the sources into the log, one after the other."""
        for source in self.sources:
            with suppress(BlockingIOError):
                for _ in range(MOST_LAST_READS):
                    if not _move(source, self.log):
                        break

    def close(self) -> None:
        """Let go of everything."""
        for descriptor in (self.log, *self.sources):
            os.close(descriptor)
        self.sources = []


class Keeping:
    """The kept calls of one launcher."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: dict[int, Kept] = {}

    @property
    def calls(self) -> Collection[int]:
        """Return the numbers of the kept calls."""
        return self._kept.keys()

    def keep(self, call: int, descriptors: Sequence[int]) -> None:
        """Keep a call; an earlier order is replaced, or taken back where no descriptors come."""
        self.forget(call)
        if descriptors:
            self._kept[call] = Kept(descriptors[0], descriptors[1:])

    def forget(self, call: int) -> None:
        """Keep a call no more."""
        kept = self._kept.pop(call, None)
        if kept is not None:
            kept.close()

    def take_over(self, poll: select.poll) -> None:
        """Have the output of every kept call wake the launcher, as the worker is gone.

        What already waits is moved first, source by source: a worker can leave a pipe that it was
        just emptying, and what that holds comes before all that comes now.
        """
        for kept in self._kept.values():
            kept.move_waiting()
            for source in kept.sources:
                poll.register(source, select.POLLIN)

    def pump(self, ready: Collection[int], poll: select.poll) -> None:
        """Move what has come into the logs."""
        for kept in self._kept.values():
            for source in [source for source in kept.sources if source in ready]:
                with suppress(BlockingIOError):
                    if not _move(source, kept.log):
                        poll.unregister(source)
                        kept.sources.remove(source)
                        os.close(source)

    def close(self) -> None:
        """Move what is left into the logs, and keep nothing any more."""
        for kept in self._kept.values():
            kept.move_waiting()
        for call in list(self._kept):
            self.forget(call)


def _move(source: int, log: int) -> bool:
    """Move some output; ``False`` at its end.

    Raises:
        BlockingIOError: there is none to be moved.
    """
    try:
        data = os.read(source, READ_BYTES)
    except BlockingIOError:
        raise
    except OSError:
        return False  # So a terminal ends when nobody holds its other side any more.
    with suppress(OSError):  # A disk that is full must not end the process.
        if os.lseek(log, 0, os.SEEK_CUR) < MOST_LOGGED_BYTES:
            os.write(log, data)
    return bool(data)
