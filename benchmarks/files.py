"""Files: small edits, whole bytes, a small read, an edit in a large file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import partial

from benchmarks.place import Place, timed
from benchmarks.rows import Row, at_most
from moorage.host.session import Session

SMALL_EDITS = 1_000
BIG_BYTES = 10_000_000
BIG_ROUNDS = 5
READ_BYTES = 4_096
READ_ROUNDS = 500
EDITED_BYTES = 200 * 1024
EDIT_ROUNDS = 100
LINE = "value = 'one line of an ordinary source file'\n"


async def rows(place: Place) -> AsyncIterator[Row]:
    """Measure the file tools and the exchange of bytes."""
    async with place.session() as session:
        yield await _small_edits(session)
        for row in await _big_bytes(session):
            yield row
        yield await _small_read(session)
        yield await _edit_in_large_file(session)


async def _small_edits(session: Session) -> Row:
    await session.write_file("small.txt", "count = 0\nend\n")

    async def all_edits() -> None:
        for number in range(SMALL_EDITS):
            await session.edit_file("small.txt", f"count = {number}\n", f"count = {number + 1}\n")

    return at_most("1,000 small edits, in sum", [await timed(all_edits)], 1_500)


async def _big_bytes(session: Session) -> list[Row]:
    data = os.urandom(BIG_BYTES)
    writes, reads = [], []
    for _ in range(BIG_ROUNDS):
        writes.append(await timed(lambda: session.write_bytes("big.bin", data)))
        reads.append(await timed(lambda: session.read_bytes("big.bin")))
    if await session.read_bytes("big.bin") != data:
        raise RuntimeError("what was read is not what was written")
    return [
        at_most("write_bytes of 10 MB", writes, 150),
        at_most("read_bytes of 10 MB", reads, 150),
    ]


async def _small_read(session: Session) -> Row:
    text = LINE * (READ_BYTES // len(LINE) + 1)
    await session.write_file("read.txt", text[: READ_BYTES - 1] + "\n")
    durations = [await timed(lambda: session.read_file("read.txt")) for _ in range(READ_ROUNDS)]
    return at_most("read_file of 4 KiB", durations, 1)


async def _edit_in_large_file(session: Session) -> Row:
    half = LINE * (EDITED_BYTES // len(LINE) // 2)
    await session.write_file("large.txt", f"{half}count = 0\n{half}")
    durations = []
    for number in range(EDIT_ROUNDS):
        old, new = f"count = {number}\n", f"count = {number + 1}\n"
        durations.append(await timed(partial(session.edit_file, "large.txt", old, new)))
    return at_most("edit_file in a 200 KiB file", durations, 5)
