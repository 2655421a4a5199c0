"""Processes as the wire speaks of them: records, requests, output windows and events.

Records use snake_case, read options and windows the wire's capitals; durations in both are
nanoseconds and times are RFC 3339 text. Inside, the names are ours and carry their units.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from moorage.errors import WorkerFailure
from moorage.protocol.tool_calls import Actor, ModeText

ZERO_TIME = "0001-01-01T00:00:00Z"
"""How the wire writes a time that is not set; such keys are never left out."""

DEFAULT_READ_BYTES = 32_768

UNKNOWN_EXIT_CODE = -1

OwnerKind = Literal["main_agent", "subagent"]
Lifecycle = Literal["session", "managed"]
CompletionMode = Literal["resume", "detached"]
ProcessStatus = Literal["starting", "running", "stopping", "stopped", "failed"]
TerminalCause = Literal["", "natural_exit", "requested_stop"]
EventType = Literal["started", "updated", "failed", "stopped", "cleaned_up", "recheck_due"]
SandboxMode = Literal["", "read-only", "workspace-write"]


def _unset_time() -> str:
    # A factory, not a default: a value equal to a default would be left out of the record.
    return ZERO_TIME


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The durable account of one started process.

    ``exit_code`` 0 is left out on the wire; a terminal record without the key ended with 0. A
    terminal record is a receipt, too: how many bytes were printed in all, and the hash of the log
    as it is kept.
    """

    id: str
    owner_kind: OwnerKind
    owner_id: str
    lifecycle: Lifecycle
    status: ProcessStatus
    pid: int
    pgid: int
    log_path: str
    command: str
    cwd: str
    started_at: str
    updated_at: str
    stopped_at: str = field(default_factory=_unset_time)
    exit_code: int = 0
    operation_id: str = ""
    root_thread_id: str = ""
    host_generation_id: str = ""
    completion_mode: CompletionMode | Literal[""] = ""
    process_start_time: str = ""
    tty: bool = False
    log_base_offset: int = 0
    last_error: str = ""
    sandbox_mode: SandboxMode = ""
    sandbox_denied: bool = False
    sandbox_runner_failed: bool = False
    sandbox_denial_signatures: tuple[str, ...] = ()
    sandbox_runner_failure_signatures: tuple[str, ...] = ()
    terminal_cause: TerminalCause = ""
    completion_delivered_at: str = field(default_factory=_unset_time)
    completion_consumed_by: str = ""
    recheck_minutes: int = 0
    next_recheck_at: str = field(default_factory=_unset_time)
    pending_recheck_at: str = field(default_factory=_unset_time)
    action: str = ""
    total_bytes: int = 0
    log_sha256: str = ""

    @property
    def is_terminal(self) -> bool:
        """Return whether the process has ended."""
        return self.status in {"stopped", "failed"}

    @property
    def is_completion_pending(self) -> bool:
        """Return whether it ended by itself, and nobody who is to hear of that has."""
        return (
            self.is_terminal
            and self.terminal_cause == "natural_exit"
            and self.completion_mode != "detached"
            and not self.completion_consumed_by
        )


class StartRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Start a background process under the host's own ``operation_id``."""

    operation_id: Annotated[str, Meta(min_length=1)]
    command: Annotated[str, Meta(min_length=1)]
    actor: Actor
    cwd: str = ""
    permission_mode: ModeText = ""
    lifecycle: Lifecycle = "session"
    completion_mode: CompletionMode = "resume"
    tty: bool = False
    environment: dict[str, str] = {}


class ProcessRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Name one process."""

    id: str


class StopRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """End one process; ``force`` leaves it no grace, and a worker that knows no force gives one."""

    id: str
    force: bool = False


class ReadOptions(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "max_bytes": "MaxBytes",
        "offset_bytes": "OffsetBytes",
        "wait_ns": "Wait",
        "min_dwell_ns": "MinDwell",
    },
):
    """Which window of a log to read and how long to wait for it; no offset means the tail."""

    max_bytes: int = DEFAULT_READ_BYTES
    offset_bytes: int | None = None
    wait_ns: int = 0
    min_dwell_ns: int = 0


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Read a window of the output of one process."""

    id: str
    options: ReadOptions = ReadOptions()


class OutputSnapshot(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "process": "Process",
        "output": "Output",
        "truncated": "Truncated",
        "start_offset": "StartOffset",
        "end_offset": "EndOffset",
        "total_bytes": "TotalBytes",
        "timed_out": "TimedOut",
        "duration_ns": "Duration",
    },
):
    """A window of a process log; continue at ``end_offset``, never at a length of the text."""

    process: ProcessRecord
    output: str
    truncated: bool
    start_offset: int
    end_offset: int
    total_bytes: int
    timed_out: bool
    duration_ns: int


class WriteRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Write text to the standard input of one process."""

    id: str
    input: str


class ResizeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Give the terminal of one process another size."""

    id: str
    cols: Annotated[int, Meta(ge=1, le=65_535)]
    rows: Annotated[int, Meta(ge=1, le=65_535)]


class CompletionDeliveredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Say who has taken note of the end of one process."""

    id: str
    consumer: str


class CompletionModeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Choose whether the end of one process is announced."""

    id: str
    mode: CompletionMode


class CleanupReply(msgspec.Struct, frozen=True, kw_only=True, rename={"cleaned": "Cleaned"}):
    """The records of what a cleanup stopped."""

    cleaned: tuple[ProcessRecord, ...] | None = None


class ProcessEvent(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"type": "Type", "cause": "Cause", "process": "Process"},
):
    """Something happened to a process; a hint, the records are the truth."""

    type: EventType
    cause: TerminalCause = ""
    process: ProcessRecord


def check_start_reply(request: StartRequest, record: object) -> None:
    """Return when the record carries the identity that was asked for.

    Raises:
        WorkerFailure: it carries another one, so the two cannot be matched after a reconnect.
    """
    answered = record.operation_id if isinstance(record, ProcessRecord) else None
    if answered != request.operation_id:
        raise WorkerFailure(
            f"process/start answered with operation {answered!r} "
            f"instead of {request.operation_id!r}.",
            hint="The process may run; look for it with process/list.",
        )
