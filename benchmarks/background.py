"""Background processes: what each step costs, floods of output, crowds, and stubborn trees."""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from benchmarks import swe_rex
from benchmarks.memory import (
    Growth,
    cpu_seconds,
    own_growth,
    proportional_bytes,
    with_descendants,
    worker_pid,
)
from benchmarks.place import Place, timed
from benchmarks.rows import Row, at_most, mebibytes, most, per_cent, ratio
from benchmarks.stubborn import SIZE, stubborn_tree
from benchmarks.terminal_loop import terminal_into_file
from moorage.host.session import Session

ROUNDS = 50
STAMP = "echo $EPOCHREALTIME"
FLOOD_BYTES = 100_000_000
FLOOD = f"yes a line of some length that a program may print | head -c {FLOOD_BYTES}"
FLOOD_ROUNDS = 5
LIVE = 200
IDLE_SECONDS = 10
SETTLE_SECONDS = 6
"""After many starts or ends, until their records are on disk and the worker is idle again."""

SHORT_COMMANDS = 1_000
AT_ONCE = 32
SHORT_ROUNDS = 7
FOREGROUND_BYTES = 2**30
STOPS = 100
STOPS_IN_QUICK_RUN = 10
STOPS_AT_ONCE = 5
STOP_SECONDS = 5.0
ENOUGH_WAIT = 60.0


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure against the bare operating system, taking turns in the same run."""
    workspace = place.root / "background"
    workspace.mkdir()
    async with place.session(workspace) as session:
        await session.run("true")
        async for row in _steps(session):
            yield row
        async for row in _floods(session, workspace):
            yield row
        async for row in _crowds(session):
            yield row
        yield await _one_gibibyte(session)
        yield await _stubborn_trees(session, STOPS_IN_QUICK_RUN if place.is_quick else STOPS)
    if not place.is_quick:
        async for row in swe_rex.rows(
            place, rounds=ROUNDS, commands=SHORT_COMMANDS, at_once=AT_ONCE
        ):
            yield row


# What each step costs.


async def _steps(session: Session) -> AsyncIterator[Row]:
    foreground = [await _foreground_exit_to_result(session) for _ in range(ROUNDS)]
    yield at_most("exit to result, in the foreground", foreground, 3)
    background = [await _background_exit_to_result(session) for _ in range(ROUNDS)]
    yield at_most("exit to result, a read that waits", background, 3)
    yield at_most("run_in_background returns", [await _start(session) for _ in range(ROUNDS)], 20)
    yield at_most("a line to cat and its echo", await _echoes(session), 5)


async def _foreground_exit_to_result(session: Session) -> float:
    result = await session.run(STAMP)
    return time.time() - float(result.stdout)


async def _background_exit_to_result(session: Session) -> float:
    """Return the time from a process's last words, right before its end, to the news of the end."""
    record = await session.processes.start(f"read line; {STAMP}", tty=False)
    text = ""
    await session.processes.write(record.id, "\n")
    async for window in session.processes.follow(record.id):
        text += window.output
    return time.time() - float(text)


async def _start(session: Session) -> float:
    started = time.perf_counter()
    result = await session.call("bash", {"command": "sleep 600", "run_in_background": True})
    seconds = time.perf_counter() - started
    await session.processes.stop(str((result.structured_content or {})["process_id"]), force=True)
    return seconds


async def _echoes(session: Session) -> list[float]:
    """Return how long it takes to get a line back twice: from the terminal and from ``cat``."""
    processes = session.processes
    record = await processes.start("cat")
    offset, seconds = 0, []
    for number in range(ROUNDS):
        line = f"line {number}"
        started, text = time.perf_counter(), ""
        await processes.write(record.id, line + "\n")
        while text.count(line) < 2:
            window = await processes.read(record.id, offset=offset, wait_seconds=ENOUGH_WAIT)
            text, offset = text + window.output, window.end_offset
        seconds.append(time.perf_counter() - started)
    await processes.stop(record.id)
    return seconds


# Floods of output.


async def _floods(session: Session, workspace: Path) -> AsyncIterator[Row]:
    ours, bare, in_terminal, bare_terminal = [], [], [], []
    for _ in range(FLOOD_ROUNDS):
        ours.append(await timed(lambda: _flood(session, tty=False)))
        bare.append(await timed(lambda: _flood_into_file(workspace / "bare")))
        in_terminal.append(await timed(lambda: _flood(session, tty=True)))
        bare_terminal.append(await timed(lambda: _flood_in_terminal(workspace / "bare")))
    yield ratio("100 MB into a log by pipes over CMD > file", ours, bare, 1.5)
    figure = "100 MB by a terminal over a bare loop into a file"
    yield ratio(figure, in_terminal, bare_terminal, 1.5)


async def _flood(session: Session, *, tty: bool) -> None:
    record = await session.processes.start(FLOOD, tty=tty)
    while not record.is_terminal:
        window = await session.processes.read(
            record.id, offset=2 * FLOOD_BYTES, wait_seconds=ENOUGH_WAIT
        )
        record = window.process
    if not tty and record.total_bytes != FLOOD_BYTES:
        raise RuntimeError(f"not all of it was logged: {record.total_bytes} bytes")


async def _flood_into_file(target: Path) -> None:
    await anyio.run_process(["bash", "-c", f"{FLOOD} > '{target}'"])


async def _flood_in_terminal(target: Path) -> None:
    await anyio.to_thread.run_sync(terminal_into_file, ["bash", "-c", FLOOD], target)


# Crowds.


async def _crowds(session: Session) -> AsyncIterator[Row]:
    records = [await session.processes.start("exec sleep 3600") for _ in range(LIVE)]
    commands = {record.pid for record in records}
    ours = own_processes(commands)
    await anyio.sleep(SETTLE_SECONDS)
    before = sum(cpu_seconds(pid) for pid in ours)
    await anyio.sleep(IDLE_SECONDS)
    used = sum(cpu_seconds(pid) for pid in ours) - before
    size = sum(proportional_bytes(pid) for pid in ours)
    yield mebibytes(f"{LIVE} live processes, worker and launchers (PSS)", size, 80)
    yield per_cent(f"{LIVE} live processes, share of a core", used / IDLE_SECONDS, 1)
    async with anyio.create_task_group() as group:
        for record in records:
            group.start_soon(session.processes.stop, record.id)

    await anyio.sleep(SETTLE_SECONDS)
    ours_s, bare_s = [], []
    for _ in range(SHORT_ROUNDS):
        ours_s.append(await timed(lambda: _short_commands(session)))
        bare_s.append(await timed(_short_commands_bare))
    yield ratio(f"{SHORT_COMMANDS:,} commands, {AT_ONCE} at once, over xargs", ours_s, bare_s, 2.0)


def own_processes(commands: set[int]) -> list[int]:
    """Return the worker and what it keeps beside the commands."""
    return [pid for pid in with_descendants(worker_pid()) if pid not in commands]


async def _short_commands(session: Session) -> None:
    numbers = iter(range(SHORT_COMMANDS))
    answers: set[str] = set()

    async def serve() -> None:
        for number in numbers:
            answers.add((await session.run(f"echo {number}")).stdout)

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(serve)
    if answers != {f"{number}\n" for number in range(SHORT_COMMANDS)}:
        raise RuntimeError("some of the commands, or their output, were lost")


async def _short_commands_bare() -> None:
    numbers = "\n".join(map(str, range(SHORT_COMMANDS))).encode()
    argv = ["xargs", "-P", str(AT_ONCE), "-I{}", "bash", "-c", "echo {}"]
    await anyio.run_process(argv, input=numbers, stdout=subprocess.PIPE)


# What must never happen.


async def _one_gibibyte(session: Session) -> Row:
    worker, host = Growth(worker_pid()), own_growth()
    result = await session.run(f"yes line | head -c {FOREGROUND_BYTES}")
    if result.stdout_bytes != FOREGROUND_BYTES:
        raise RuntimeError(f"counted {result.stdout_bytes} bytes")
    return mebibytes(
        "1 GiB in the foreground, growth of both sides",
        max(worker.peak_bytes(), host.peak_bytes()),
        16,
    )


async def _stubborn_trees(session: Session, runs: int) -> Row:
    """Stop trees, a few at once, and look for each of their processes afterwards."""
    seconds: list[float] = []
    left: list[int] = []
    numbers = iter(range(runs))

    async def serve() -> None:
        for _ in numbers:
            tree = await stubborn_tree(session)
            started = time.perf_counter()
            await session.processes.stop(tree.id)
            seconds.append(time.perf_counter() - started)
            left.extend(tree.left())

    async with anyio.create_task_group() as group:
        for _ in range(STOPS_AT_ONCE):
            group.start_soon(serve)
    if left:
        raise RuntimeError(f"{len(left)} processes outlived the stop of their tree")
    figure = f"stop of {SIZE} stubborn processes, worst of {runs}"
    return most(figure, seconds, STOP_SECONDS)
