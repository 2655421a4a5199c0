"""Output: 100 MB printed in the foreground, redacted, hashed and kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from benchmarks.memory import Growth, own_growth, worker_pid
from benchmarks.place import Place, timed
from benchmarks.rows import Row, mebibytes, ratio

BYTES = 100_000_000
COMMAND = f"yes line | head -c {BYTES}"
CHUNK = 262_144
ROUNDS = 3


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure wall time against a program that reads and drops, and the growth of both sides."""
    async with place.session() as session:
        await session.run("true")
        await _read_and_drop()
        ours, bare, worker_growth, host_growth = [], [], 0, 0
        for _ in range(ROUNDS):
            worker, host = Growth(worker_pid()), own_growth()
            ours.append(await timed(lambda: session.run(COMMAND)))
            worker_growth = max(worker_growth, worker.peak_bytes())
            host_growth = max(host_growth, host.peak_bytes())
            bare.append(await timed(_read_and_drop))
        result = await session.run(COMMAND)
        if result.stdout_bytes != BYTES or not result.full_log_ref:
            raise RuntimeError(f"not all of it was kept: {result.stdout_bytes} bytes")
        yield ratio("100 MB of output over reading and dropping", ours, bare, 3.0)
        yield mebibytes("100 MB of output, growth of the worker", worker_growth, 16)
        yield mebibytes("100 MB of output, growth of the host", host_growth, 16)


async def _read_and_drop() -> None:
    child = await asyncio.create_subprocess_exec(
        *("bash", "-c", COMMAND), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None  # noqa: S101 - a pipe was asked for
    while await child.stdout.read(CHUNK):
        pass
    await child.wait()
