"""Search: grep over a large tree against bare ripgrep."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator

from benchmarks.place import FILES_IN_LARGE_TREE, NEEDLE, NEEDLE_EVERY, Place, timed, timed_bare
from benchmarks.rows import Row, ratio

ROUNDS = 7


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure ``grep`` and bare ``rg --json`` of the same pattern, taking turns."""
    if shutil.which("rg") is None:
        yield Row(figure="grep over 50,000 files", measured="not measured: rg is not installed")
        return
    argv = ["rg", "--json", NEEDLE, str(place.large_tree)]
    async with place.session(place.large_tree) as session:
        found = await session.grep(NEEDLE, output_mode="count")
        if found.is_error:
            raise RuntimeError(f"grep failed: {found.text}")
        if f"{FILES_IN_LARGE_TREE // NEEDLE_EVERY}" not in str(found.structured_content):
            raise RuntimeError(f"grep missed matches: {found.structured_content}")
        ours, bare = [], []
        for _ in range(ROUNDS):
            ours.append(await timed(lambda: session.grep(NEEDLE)))
            bare.append(timed_bare(argv, stdout=subprocess.PIPE))
        yield ratio("grep over 50,000 files over rg --json", ours, bare, 1.3)
