"""Start-up: opening a session, importing the library, and what stays in memory at rest."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator

import moorage
from benchmarks.memory import proportional_bytes, with_descendants, worker_pid
from benchmarks.place import Place, timed_bare
from benchmarks.rows import Row, added, mebibytes, more, ratio

OPEN_ROUNDS = 11
FIRST_OPEN_ROUNDS = 3
IMPORT_ROUNDS = 21
PYTHON = [sys.executable, "-c"]
EMPTY_LOOP = "anyio.run(anyio.lowlevel.checkpoint)"


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure start-up against bare Python that imports the same foundations."""
    first = [await _first_result(place, f"home-{number}") for number in range(FIRST_OPEN_ROUNDS)]
    opened, imported, looped = [], [], []
    await _first_result(place, "home")
    for _ in range(OPEN_ROUNDS):
        opened.append(await _first_result(place, "home"))
        imported.append(timed_bare([*PYTHON, "import anyio, msgspec"]))
        looped.append(timed_bare([*PYTHON, f"import anyio, msgspec; {EMPTY_LOOP}"]))
    yield ratio("open to first result over import anyio, msgspec", opened, imported, 1.6)
    yield ratio("  over the same with an event loop that ran once", opened, looped)
    yield more("  login capture, in the first session of a home", first, opened)

    bare, alone, used = (
        [timed_bare([*PYTHON, statement]) for _ in range(IMPORT_ROUNDS)]
        for statement in ("pass", "import moorage", "from moorage import open_session")
    )
    yield added("import moorage, over bare Python", alone, bare, 120)
    yield more("  from moorage import open_session, likewise", used, bare)

    async with place.session() as session:
        await session.run("true")
        total = sum(proportional_bytes(pid) for pid in with_descendants(worker_pid()))
        yield mebibytes("worker, nursery and launcher at rest (PSS)", total, 60)


async def _first_result(place: Place, home: str) -> float:
    """Return the seconds from opening a session to the result of its first command."""
    started = time.perf_counter()
    async with moorage.open_session(workspace=place.repository, home=place.root / home) as session:
        await session.run("true")
        return time.perf_counter() - started
