"""SWE-ReX's local runtime beside ours, in a virtual environment of its own, where it installs."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import AsyncIterator
from typing import Any

import anyio

from benchmarks.place import Place
from benchmarks.rows import MS, Row, median_ms

PACKAGE = "swe-rex"
INSTALL_SECONDS = 180
MEASURE_SECONDS = 120

# Runs in the other environment, so it imports nothing of ours. Commands at once need no session.
PROGRAM = """
import asyncio, json, sys, time
from swerex.runtime.abstract import BashAction, Command, CreateBashSessionRequest
from swerex.runtime.local import LocalRuntime

async def main(rounds, commands, at_once):
    runtime = LocalRuntime()
    await runtime.create_session(CreateBashSessionRequest())
    ends = []
    for _ in range(rounds):
        told = await runtime.run_in_session(BashAction(command="echo $EPOCHREALTIME"))
        ends.append(time.time() - float(told.output))
    numbers = iter(range(commands))
    async def serve():
        for number in numbers:
            await runtime.execute(Command(command=["bash", "-c", f"echo {number}"]))
    started = time.perf_counter()
    await asyncio.gather(*(serve() for _ in range(at_once)))
    seconds = time.perf_counter() - started
    await runtime.close()
    print(json.dumps({"ends": ends, "many": seconds}))

asyncio.run(main(*map(int, sys.argv[1:])))
"""


async def rows(place: Place, *, rounds: int, commands: int, at_once: int) -> AsyncIterator[Row]:
    """Measure what can be compared, or say why it cannot be."""
    try:
        told = await anyio.to_thread.run_sync(_measure, place, (rounds, commands, at_once))
    except (OSError, subprocess.SubprocessError) as error:
        yield Row(figure="SWE-ReX's local runtime", measured=f"not measured: {_cause(error)}")
        return
    end = median_ms(told["ends"])
    yield Row(
        figure="  SWE-ReX, exit to result",
        measured=f"{end:.2f} ms",
        values={"median_ms": end},
    )
    many = told["many"] * MS
    yield Row(
        figure=f"  SWE-ReX, {commands:,} commands, {at_once} at once",
        measured=f"{many:.2f} ms",
        values={"ms": many},
    )


def _measure(place: Place, numbers: tuple[int, ...]) -> Any:
    folder = place.root / "swe-rex"
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE]
    subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    told = subprocess.run(
        [python, "-c", PROGRAM, *map(str, numbers)],
        check=True,
        capture_output=True,
        timeout=MEASURE_SECONDS,
    )
    return json.loads(told.stdout.splitlines()[-1])


def _cause(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError) and error.stderr:
        return str(error.stderr.decode(errors="replace").strip().splitlines()[-1])
    return str(error).splitlines()[0]
