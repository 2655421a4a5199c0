"""The end of a run: stop what lives, tell what is owed, and gather the evidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import anyio
import msgspec

from moorage.errors import ExecutionError
from moorage.host.session import Session
from moorage.protocol.processes import ProcessRecord
from torture import proofs, table
from torture.delivering import deliver
from torture.impostors import folder_of_records
from torture.proofs import Deliveries, KeptLog
from torture.stage import Place
from torture.subjects import Chronicle, Subject

AT_ONCE = 8
SETTLE_SECONDS = 10.0
"""Until every record of a session tells an end, after everything was stopped."""

GONE_SECONDS = 5.0
"""Until the last launcher has gone, after the sessions were closed."""

_LOOK_SECONDS = 0.1
_WINDOW_BYTES = 1024 * 1024


@dataclasses.dataclass
class Evidence:
    """What was found of one session while its worker could still be asked."""

    place: Place
    listed: Mapping[str, ProcessRecord]
    shown: Mapping[str, bytes] = dataclasses.field(default_factory=dict)


async def wind_down(
    place: Place, token: str, chronicle: Chronicle, deliveries: Deliveries
) -> Evidence:
    """Stop everything that lives in a session, and tell every end that is owed."""
    session = place.handles[0]
    await _look_for_the_living(session, token, chronicle)
    await _stop_all(session, chronicle)
    await deliver(session, deliveries)
    records = await session.processes.list()
    for record in records:
        _take_in(record, place, chronicle)
    known = {record.id for record in records}
    chronicle.surprises += [
        f"{each}: its record is gone"
        for each in chronicle.subjects
        if each.place == place.name and each.id and each.id not in known
    ]
    shown: dict[str, bytes] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as tasks:
        for record in records:
            tasks.start_soon(_show, session, record, shown, limiter)
    return Evidence(place, {record.id: record for record in records}, shown)


async def _look_for_the_living(session: Session, token: str, chronicle: Chronicle) -> None:
    """See in the process table what lives: else finding no orphan there would prove nothing."""
    before = _living(await session.processes.list())
    seen = {each.pid for each in table.marked(token)}
    after = _living(await session.processes.list())
    chronicle.counts["see it in the process table"] += len(seen)
    chronicle.surprises += [
        f"{record.id}: runs as {record.pid}, but the process table does not show its mark"
        for record in after.values()
        if record.id in before and record.pid not in seen
    ]


def _living(records: Sequence[ProcessRecord]) -> dict[str, ProcessRecord]:
    return {record.id: record for record in records if record.status == "running"}


async def _stop_all(session: Session, chronicle: Chronicle) -> None:
    async def stop(record: ProcessRecord) -> None:
        try:
            async with limiter:
                await session.processes.stop(record.id)
        except ExecutionError as error:
            chronicle.surprises.append(f"{record.id}: the last stop failed: {error}")

    limiter = anyio.CapacityLimiter(AT_ONCE)
    with anyio.move_on_after(SETTLE_SECONDS):
        while living := [each for each in await session.processes.list() if not each.is_terminal]:
            async with anyio.create_task_group() as tasks:
                for record in living:
                    tasks.start_soon(stop, record)
            await anyio.sleep(_LOOK_SECONDS)


def _take_in(record: ProcessRecord, place: Place, chronicle: Chronicle) -> None:
    subject = chronicle.find(record)
    if subject is None or subject.id not in {"", record.id}:
        chronicle.surprises.append(f"{record.id}: nobody started it: {record.command!r}")
        return
    if subject.place != place.name:
        chronicle.surprises.append(f"{subject}: its record is in the session {place.name}")
    subject.id, subject.record = record.id, record


async def _show(
    session: Session, record: ProcessRecord, shown: dict[str, bytes], limiter: anyio.CapacityLimiter
) -> None:
    """Read a whole kept log over the API, window by window."""
    parts, offset = [], record.log_base_offset
    async with limiter:
        while offset < record.total_bytes:
            window = await session.processes.read(record.id, offset=offset, max_bytes=_WINDOW_BYTES)
            if window.start_offset != offset or window.end_offset <= offset:
                break
            parts.append(window.output.encode())
            offset = window.end_offset
    shown[record.id] = b"".join(parts)


# After the sessions were closed.


def lost_bytes(evidence: Evidence, chronicle: Chronicle) -> list[str]:
    """Look at every log of a session, one after another, so that memory holds only one."""
    found: list[str] = []
    for subject in chronicle.subjects:
        record = evidence.listed.get(subject.id)
        if record is not None and record.is_terminal:
            log = KeptLog(record, _on_disk(record), evidence.shown.get(record.id, b""))
            found += proofs.lost_bytes(subject, log, evidence.place.crashes)
    return found


def _on_disk(record: ProcessRecord) -> bytes:
    try:
        return Path(record.log_path).read_bytes()
    except FileNotFoundError:
        return b""


def inconsistent(evidence: Evidence) -> list[str]:
    """Compare the records on disk with what the worker said."""
    on_disk: dict[str, ProcessRecord] = {}
    folders = {folder_of_records(record) for record in evidence.listed.values()}
    for path in (path for folder in folders for path in folder.glob("*.json")):
        on_disk[path.stem] = msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
    return proofs.inconsistent(evidence.listed, on_disk)


async def left_behind(token: str, apart_from: Collection[int]) -> Sequence[table.Sighting]:
    """Return what of the run is still in the process table, after a moment for the last to go."""
    left = table.marked(token, apart_from)
    with anyio.move_on_after(GONE_SECONDS):
        while left:
            await anyio.sleep(_LOOK_SECONDS)
            left = table.marked(token, apart_from)
    return left


def described(subjects: Sequence[Subject]) -> str:
    """Return how many processes were started, and of which kinds."""
    kinds = {
        kind: sum(each.kind == kind for each in subjects) for kind in ("printer", "echo", "tree")
    }
    return ", ".join(f"{number} {kind}" for kind, number in kinds.items())
