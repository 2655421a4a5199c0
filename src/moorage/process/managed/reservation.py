"""A place kept for a foreground command: what it prints is kept raw, in case it is handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.process.kept.log import OutputLog

if TYPE_CHECKING:
    from moorage.process.managed.ledger import Ledger
    from moorage.process.managed.limits import ManagedLimits
    from moorage.process.managed.live import StartSpec


class Reservation:
    """An id and a log that exist once they are needed, and go when they are not."""

    def __init__(self, ledger: Ledger, spec: StartSpec, limits: ManagedLimits) -> None:
        """Reserve nothing yet."""
        self.spec = spec
        self._ledger = ledger
        self._limits = limits
        self._process_id = ""
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._log: OutputLog | None = None

    @property
    def process_id(self) -> str:
        """Return the id that the process would have."""
        if not self._process_id:
            self._process_id = self._ledger.store.new_id()
        return self._process_id

    def write(self, data: bytes) -> None:
        """Keep what the command printed, in the order in which it was taken.

        A log that cannot be written keeps nothing more, and the hand-over fails.
        """
        if self._log is not None:
            self._append(self._log, data)
            return
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > self._limits.reserved_memory_bytes:
            try:
                self._spill()
            except OSError:
                self._held.clear()
                self._held_bytes = 0

    def _spill(self) -> OutputLog:
        log = OutputLog(self._ledger.folders.logs, self.process_id)
        log.create()
        self._log = log
        for data in self._held:
            self._append(log, data)
        self._held.clear()
        self._held_bytes = 0
        return log

    def _append(self, log: OutputLog, data: bytes) -> None:
        log.append(data)
        if log.size > self._limits.reserved_log_bytes:
            log.cut(self._limits.kept_log_bytes, lambda _: None)

    def take_log(self) -> OutputLog:
        """Return the log with all that was written; it is the caller's now.

        Raises:
            OSError: it could not be written.
        """
        log = self._log or self._spill()
        self._log = None
        if log.lost_bytes:
            problem = log.problem
            log.remove()
            raise OSError(0, problem)
        return log

    def discard(self) -> None:
        """Let the log go; nothing was handed over."""
        self._held.clear()
        if self._log is not None:
            self._log.remove()
            self._log = None
