"""Waits for the background processes of a session, and takes note of their ends, once each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from moorage.host.processes import LONGEST_WAIT_SECONDS

if TYPE_CHECKING:
    from moorage.host.session import Session
    from moorage.protocol.processes import ProcessRecord

CONSUMER = "moorage run"

_BEYOND = 2**62
"""An offset beyond every log: a read from there waits, and brings no output."""

_GATHER_SECONDS = 5.0
_GATHER_BYTES = 1024 * 1024


async def ends(session: Session) -> AsyncIterator[ProcessRecord]:
    """Yield each process that ends, or whose end nobody has taken note of yet.

    ``managed`` processes are to outlive the session and ``detached`` ones announce nothing, so
    neither is waited for.
    """
    for record in await session.processes.list():
        if not _is_awaited(record):
            continue
        ended = await _ended(session, record)
        if ended.terminal_cause == "natural_exit":
            ended = await session.processes.acknowledge(ended.id, consumer=CONSUMER)
        yield ended


def _is_awaited(record: ProcessRecord) -> bool:
    if record.completion_mode == "detached":
        return False
    if record.is_terminal:
        return record.terminal_cause == "natural_exit" and not record.completion_consumed_by
    return record.lifecycle == "session"


async def _ended(session: Session, record: ProcessRecord) -> ProcessRecord:
    while not record.is_terminal:
        snapshot = await session.processes.read(
            record.id,
            offset=_BEYOND,
            max_bytes=_GATHER_BYTES,
            wait_seconds=LONGEST_WAIT_SECONDS,
            dwell_seconds=_GATHER_SECONDS,
        )
        record = snapshot.process
    return record
