"""What is known about all processes of one session: in memory, on disk, and as it is shown.

Records are raw on disk and in memory. Whatever leaves here is masked.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import ConfigError
from moorage.process.kept.log import OutputLog, recover_tails
from moorage.process.kept.records import BadRecord, Folders, RecordStore, stamp
from moorage.process.kept.syncing import DiskSync, StartSoon
from moorage.process.managed.live import Live, UnknownProcess
from moorage.protocol.processes import EventType, ProcessEvent, ProcessRecord, TerminalCause

if TYPE_CHECKING:
    from pathlib import Path

    from moorage.process.kept.window import PlaceMasker
    from moorage.process.managed.limits import ManagedLimits

logger = logging.getLogger(__name__)

_DAY = 24 * 3600 * 1_000_000_000

OnEvent = Callable[[ProcessEvent], None]


class Ledger:
    """The processes by id."""

    def __init__(
        self,
        folder: Path,
        limits: ManagedLimits,
        redactor: Callable[[], PlaceMasker],
        on_event: OnEvent,
        start_soon: StartSoon,
    ) -> None:
        """Open nothing yet."""
        self._sync = DiskSync(self._sync_records, start_soon, limits.sync_seconds)
        self.limits = limits
        self.generation = f"host-{time.time_ns()}-{os.urandom(8).hex()}"
        self._folder = folder
        self._redactor = redactor
        self._on_event = on_event
        self._opened: Folders | None = None
        self._store: RecordStore | None = None
        self._lives: dict[str, Live] = {}
        self._bad: dict[str, str] = {}
        self._shown: dict[str, tuple[ProcessRecord, PlaceMasker, ProcessRecord]] = {}

    # Opening and closing.

    @property
    def is_open(self) -> bool:
        """Return whether records can be read and written now."""
        return self._opened is not None

    @property
    def folders(self) -> Folders:
        """Return the folders, which are open.

        Raises:
            ConfigError: they are not.
        """
        if self._opened is None:
            raise ConfigError("The records of background processes are not open; nothing ran.")
        return self._opened

    @property
    def store(self) -> RecordStore:
        """Return the records on disk."""
        self.folders  # noqa: B018 - says so when they are not open
        assert self._store is not None  # noqa: S101 - opened together
        return self._store

    def open(self) -> None:
        """Read every record; one that cannot be used is named, and left as it is.

        Raises:
            ConfigError: the folders cannot be made or used.
        """
        self._opened = Folders(self._folder)
        store = self._store = RecordStore(self._opened)
        records: dict[str, ProcessRecord] = {}
        for process_id in store.names():
            try:
                records[process_id] = store.load(process_id)
            except BadRecord as problem:
                self._bad[process_id] = str(problem)
                logger.warning("the record of %s is not used: %s", process_id, problem)
        recover_tails(
            self._opened.logs, {each.id: each.log_base_offset for each in records.values()}
        )
        for record in records.values():
            if self._is_old(record):
                store.remove(record.id)
                OutputLog(self._opened.logs, record.id).remove()
                continue
            log = OutputLog(self._opened.logs, record.id, base=record.log_base_offset)
            log.find()
            self._lives[record.id] = Live(record, log, self.limits)

    def _is_old(self, record: ProcessRecord) -> bool:
        """Return whether a record has been kept for long enough, and is owed to nobody."""
        oldest = stamp(time.time_ns() - int(self.limits.kept_days * _DAY))
        return (
            record.is_terminal and record.stopped_at < oldest and not record.is_completion_pending
        )

    async def aclose(self) -> None:
        """Let go of every file, once everything is on disk."""
        await self._sync.aclose()
        for live in self._lives.values():
            live.log.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = self._store = None

    # Finding.

    def __iter__(self) -> Iterator[Live]:
        """Iterate over all processes."""
        return iter(tuple(self._lives.values()))

    def of(self, session: str) -> tuple[Live, ...]:
        """Return the processes of one session, the oldest first."""
        found = [live for live in self._lives.values() if live.record.root_thread_id == session]
        return tuple(sorted(found, key=lambda live: (live.record.started_at, live.record.id)))

    def find(self, session: str, process_id: str) -> Live:
        """Return a process of this session.

        Raises:
            UnknownProcess: there is none with this id, or its record cannot be used.
        """
        live = self._lives.get(process_id)
        if live is not None and live.record.root_thread_id == session:
            return live
        if live is None and process_id in self._bad:
            raise UnknownProcess(
                f"The record of {process_id} cannot be used: {self._bad[process_id]}.",
                hint="Nothing was done; the file is left for inspection.",
            )
        raise UnknownProcess(
            f"No background process of this session has the id {process_id!r}.",
            hint="List them to see their ids.",
        )

    # Changing.

    def add(self, live: Live) -> None:
        """Take in a process whose record was just made.

        Raises:
            OSError: the record cannot be written.
        """
        self.store.save(live.record)
        self._sync.note(live.record.id)
        self._lives[live.record.id] = live

    def drop(self, live: Live) -> None:
        """Forget a process, its record and its log."""
        self._lives.pop(live.record.id, None)
        self._shown.pop(live.record.id, None)
        self.store.remove(live.record.id)
        live.log.remove()

    def change(self, live: Live, **fields: Any) -> None:
        """Change a record here and on disk; a disk that is full keeps the former one."""
        record = msgspec.structs.replace(live.record, updated_at=stamp(), **fields)
        live.record = record
        try:
            self.store.save(record)
        except OSError as error:
            logger.warning("the record of %s cannot be written: %s", record.id, error)
            return
        self._sync.note(record.id)

    def _sync_records(self, ids: Iterable[str]) -> None:
        self.store.sync(ids)

    # Showing.

    def masker(self) -> PlaceMasker:
        """Return what masks secrets now."""
        return self._redactor()

    def shown(self, live: Live) -> ProcessRecord:
        """Return a record as everybody may see it."""
        masker, raw = self.masker(), live.record
        kept = self._shown.get(raw.id)
        if kept is None or kept[0] is not raw or kept[1] is not masker:
            masked = msgspec.structs.replace(
                raw, command=masker.text(raw.command), last_error=masker.text(raw.last_error)
            )
            kept = self._shown[raw.id] = raw, masker, masked
        return kept[2]

    def tell(self, kind: EventType, live: Live, cause: TerminalCause = "") -> None:
        """Publish that something happened to a process."""
        self._on_event(ProcessEvent(type=kind, cause=cause, process=self.shown(live)))
