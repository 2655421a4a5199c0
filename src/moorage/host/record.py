"""The durable record of a session: every call with its whole envelope, one JSON object a line.

A line is written before the call returns, so it survives the death of any process; lines are synced
to disk together, at most ``sync_seconds`` later and at the end.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from moorage.errors import ConfigError, ExecutionError
from moorage.host.audit import Audit, audit_of
from moorage.protocol.tool_calls import ContentPart, ToolResult

SYNC_SECONDS = 0.05

logger = logging.getLogger(__name__)


class CallRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call: who called what, how it went, and the envelope. Arguments are kept as a hash."""

    call_id: str
    name: str
    actor: str
    mode: str
    started_at: datetime
    duration_ms: float
    arguments_sha256: str = ""
    purpose: str = ""
    is_error: bool = False
    error_code: str = ""
    error: str = ""
    audit: Audit = Audit()
    structured_content: Any = None
    content: tuple[ContentPart, ...] = ()


class CallLog:
    """Appends to the record of one session."""

    def __init__(self, file: Path) -> None:
        """Open the record for appending, private to the user.

        Raises:
            ConfigError: it cannot be opened or written.
        """
        self._problem = ""
        self._opening = secrets.token_hex(4)
        self._calls = 0
        self._encoder = msgspec.json.Encoder()
        self._is_dirty = anyio.Event()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(file, flags, 0o600)
        except OSError as error:
            raise _unwritable(error.strerror or "") from error
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            self._problem = "its last line is torn"

    def next_id(self) -> str:
        """Return an id that no other call of the record has, nor one of a later opening."""
        self._calls += 1
        return f"{self._opening}-{self._calls}"

    async def recorded(self, work: Callable[[], Awaitable[ToolResult]], **facts: Any) -> ToolResult:
        """Make one call and write down how it went, whatever that is.

        Raises:
            ConfigError: it could not be written down; nothing was called.
        """
        self.check_writable()
        started_at = datetime.now(UTC)
        try:
            outcome = await work()
        except BaseException as error:
            self.append(record_of(started_at, error, **facts))
            raise
        self.append(record_of(started_at, outcome, **facts))
        return outcome

    def check_writable(self) -> None:
        """Return while calls can be recorded; a line torn by a full disk or a crash is ended.

        Raises:
            ConfigError: they cannot, so nothing may be called.
        """
        if self._problem:
            try:
                os.write(self._descriptor, b"\n")
            except OSError as error:
                raise _unwritable(error.strerror or "") from error
            self._problem = ""

    def append(self, record: CallRecord) -> None:
        """Write one line; it reaches the disk with the next sync.

        What was called has happened, so a disk that takes no more does not hide its result: it is
        logged, and the next call is refused while it lasts.
        """
        line = memoryview(self._encoder.encode(record) + b"\n")
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self._problem = error.strerror or str(error)
            logger.error(  # noqa: TRY400 - the sentence is for a person
                "the call %s is not in the session's record: %s", record.call_id, self._problem
            )
        self._is_dirty.set()

    async def keep_synced(self) -> None:
        """Sync what was written, in groups, until cancelled."""
        while True:
            await self._is_dirty.wait()
            await anyio.sleep(SYNC_SECONDS)
            self._is_dirty = anyio.Event()
            await anyio.to_thread.run_sync(os.fdatasync, self._descriptor)

    def close(self) -> None:
        """Sync and close."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)


def record_of(
    started_at: datetime, outcome: ToolResult | BaseException, **facts: Any
) -> CallRecord:
    """Return the line for a call that returned a result, or was ended by an error."""
    duration_ms = round((datetime.now(UTC) - started_at).total_seconds() * 1000, 3)
    if isinstance(outcome, ToolResult):
        has_envelope = outcome.structured_content is not None
        facts |= {"is_error": outcome.is_error, "structured_content": outcome.structured_content}
        facts["content"] = () if has_envelope and not outcome.is_error else outcome.content
    elif isinstance(outcome, ExecutionError):
        so_far = getattr(outcome, "result", None)
        facts |= {"is_error": True, "error_code": outcome.code, "error": str(outcome)}
        facts["structured_content"] = getattr(so_far, "structured_content", so_far)
    elif isinstance(outcome, Exception):
        facts |= {"is_error": True, "error_code": "internal_error", "error": repr(outcome)}
    else:
        facts |= {"is_error": True, "structured_content": {"outcome": "cancelled"}}
    facts["audit"] = audit_of(facts["name"], outcome)
    return CallRecord(started_at=started_at, duration_ms=duration_ms, **facts)


def hash_of(arguments: bytes) -> str:
    """Return the hash that stands for the arguments in the record."""
    return hashlib.sha256(arguments).hexdigest()


def read_calls(file: Path) -> Iterator[CallRecord]:
    """Yield the calls of a record in order; a line torn by a crash or a full disk is left out."""
    if not file.exists():
        return
    with file.open("rb") as lines:
        for line in lines:
            try:
                yield msgspec.json.decode(line, type=CallRecord)
            except msgspec.DecodeError:
                continue


def _unwritable(reason: str) -> ConfigError:
    return ConfigError(
        f"the session's record cannot be written: {reason}; nothing was called.",
        hint="Make room in Moorage's home, or name another one with MOORAGE_HOME.",
    )
