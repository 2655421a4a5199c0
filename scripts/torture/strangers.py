"""Processes outside Moorage that write down every signal they get; none is meant for them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torture import table

COUNT = 3
_END_SECONDS = 5

_PROGRAM = """
import os, signal, sys
every = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
signal.pthread_sigmask(signal.SIG_BLOCK, every)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
print("ready", flush=True)
while True:
    got = signal.sigwaitinfo(every)
    os.write(log, f"signal {got.si_signo} from process {got.si_pid}\\n".encode())
"""


@dataclasses.dataclass(frozen=True)
class Stranger:
    """One of them: how it was seen first, and where it writes."""

    first_seen: table.Sighting
    log: Path


@contextmanager
def strangers(folder: Path, cwd: Path, count: int = COUNT) -> Iterator[list[Stranger]]:
    """Start strangers, one of them in the workspace, each with a session of its own."""
    with ExitStack() as ends:
        found = []
        for number in range(count):
            log = folder / f"stranger-{number}.signals"
            child = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(log)],
                cwd=cwd if number == 0 else folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            ends.callback(_end, child)
            assert child.stdout is not None  # noqa: S101 - a pipe was asked for
            child.stdout.readline()
            seen = table.look_at(child.pid)
            if seen is None:
                raise RuntimeError("a stranger ended before the torture began")
            found.append(Stranger(seen, log))
        yield found


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait(timeout=_END_SECONDS)
    if child.stdout is not None:
        child.stdout.close()
