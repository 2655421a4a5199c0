"""The background processes of one session, as its host sees them: started, read, written, stopped.

The worker keeps the records, and they are the truth. Nothing is ever sent twice: a start whose
answer was lost is looked for by its ``operation_id``, and never repeated.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

from moorage.errors import InvalidArguments, ProtocolMismatch
from moorage.protocol.binding import PROCESS_START
from moorage.protocol.processes import (
    DEFAULT_READ_BYTES,
    CleanupReply,
    CompletionDeliveredRequest,
    CompletionMode,
    CompletionModeRequest,
    Lifecycle,
    OutputSnapshot,
    ProcessRecord,
    ProcessRequest,
    ReadOptions,
    ReadRequest,
    ResizeRequest,
    StartRequest,
    StopRequest,
    WriteRequest,
    check_start_reply,
)

if TYPE_CHECKING:
    import msgspec

    from moorage.connection.host_end import HostConnection
    from moorage.host.environments import Environment
    from moorage.policy.permission import PermissionMode

T = TypeVar("T")

ANSWER_SECONDS = 35.0
"""Every request but a read is answered within this: a stop takes at most about 5 s."""

LONGEST_WAIT_SECONDS = 300.0
FOLLOW_WAIT_SECONDS = 30.0
_NANOSECONDS = 1_000_000_000


class StartOptions(TypedDict, total=False):
    """What a start may say beside its command.

    ``operation_id`` names it, so that ``find`` can tell later whether it happened. ``lifecycle`` is
    ``session`` or ``managed``, ``completion_mode`` ``resume`` or ``detached``; ``variables`` are
    additions to those of every command.
    """

    operation_id: str
    lifecycle: Lifecycle
    completion_mode: CompletionMode
    variables: Mapping[str, str]


class Processes:
    """The background processes of one session; offsets and sizes are bytes, durations seconds."""

    def __init__(self, environment: Environment, actor: str) -> None:
        """Ask the environment's worker, on behalf of the actor."""
        self._environment = environment
        self._actor = actor

    @property
    def outlive_host(self) -> bool:
        """Return whether they go on when the session is closed here, in a worker that stays."""
        return self._environment.outlives_host

    async def start(
        self,
        command: str,
        *,
        cwd: str = "",
        tty: bool = True,
        **options: Unpack[StartOptions],
    ) -> ProcessRecord:
        """Start a command in the background, in a terminal or with pipes; its record is durable.

        Raises:
            InvalidArguments: the command is blank, or the folder is none; nothing ran.
            ProtocolMismatch: the worker cannot start processes that are found again; nothing ran.
            OutcomeUnknown: the answer was lost; look for the operation before another start.
        """
        if unknown := options.keys() - StartOptions.__optional_keys__:
            raise TypeError(f"start() takes no {', '.join(sorted(unknown))}")
        if not command.strip():
            raise InvalidArguments("The command is blank; nothing ran.", hint="Give a command.")
        request = StartRequest(
            operation_id=options.get("operation_id") or secrets.token_hex(16),
            command=command,
            actor=self._actor,
            cwd=cwd,
            permission_mode=self._mode.value,
            lifecycle=options.get("lifecycle", "session"),
            completion_mode=options.get("completion_mode", "resume"),
            tty=tty,
            environment=dict(options.get("variables", {})),
        )
        connection = await self._environment.connection()
        if PROCESS_START not in connection.capabilities:
            raise ProtocolMismatch(
                "This worker cannot start background processes that can be found again.",
                hint="Use an environment whose worker offers process.start.v1.",
            )
        record = await self._request("process/start", request, ProcessRecord, connection)
        check_start_reply(request, record)
        return record

    async def find(self, operation_id: str) -> ProcessRecord | None:
        """Return the process of one start, or ``None`` while none is known."""
        found = [record for record in await self.list() if record.operation_id == operation_id]
        return found[0] if found else None

    async def list(self) -> tuple[ProcessRecord, ...]:
        """Return the records of the session, the oldest first; opens no environment for it."""
        if not self._environment.is_provisioned:
            return ()
        return await self._request("process/list", None, tuple[ProcessRecord, ...])

    async def get(self, process_id: str) -> ProcessRecord:
        """Return one record.

        Raises:
            InvalidArguments: no process of this session has the id.
        """
        return await self._request("process/get", ProcessRequest(id=process_id), ProcessRecord)

    async def read(
        self,
        process_id: str,
        *,
        offset: int | None = None,
        max_bytes: int = DEFAULT_READ_BYTES,
        wait_seconds: float = 0.0,
        dwell_seconds: float = 0.0,
    ) -> OutputSnapshot:
        """Return a window of the output: from ``offset`` on, or the newest bytes.

        With ``wait_seconds`` it waits for output beyond the offset or for the end, and gathers what
        comes within ``dwell_seconds``.

        Raises:
            InvalidArguments: no process of this session has the id, or the offset is below zero.
        """
        wait = min(max(wait_seconds, 0.0), LONGEST_WAIT_SECONDS)
        options = ReadOptions(
            max_bytes=max_bytes,
            offset_bytes=offset,
            wait_ns=int(wait * _NANOSECONDS),
            min_dwell_ns=int(max(dwell_seconds, 0.0) * _NANOSECONDS),
        )
        connection = await self._environment.connection()
        return await connection.request(
            "process/read",
            ReadRequest(id=process_id, options=options),
            OutputSnapshot,
            deadline_seconds=wait + ANSWER_SECONDS,
        )

    async def follow(
        self, process_id: str, *, offset: int | None = 0, max_bytes: int = DEFAULT_READ_BYTES
    ) -> AsyncIterator[OutputSnapshot]:
        """Yield windows as output comes; the last one tells how the process ended."""
        while True:
            snapshot = await self.read(
                process_id, offset=offset, max_bytes=max_bytes, wait_seconds=FOLLOW_WAIT_SECONDS
            )
            offset = snapshot.end_offset
            is_over = snapshot.process.is_terminal and offset >= snapshot.total_bytes
            if snapshot.output or is_over:
                yield snapshot
            if is_over:
                return

    async def write(self, process_id: str, text: str) -> ProcessRecord:
        """Write to a process as if typed; add the newline where one is expected.

        Raises:
            InvalidArguments: it is unknown here, has ended, or takes no input.
        """
        request = WriteRequest(id=process_id, input=text)
        return await self._request("process/write", request, ProcessRecord)

    async def resize(self, process_id: str, *, columns: int, rows: int) -> ProcessRecord:
        """Give the terminal of a process another size.

        Raises:
            InvalidArguments: it is unknown here, has ended, or has no terminal.
        """
        request = ResizeRequest(id=process_id, cols=columns, rows=rows)
        return await self._request("process/resize", request, ProcessRecord)

    async def stop(self, process_id: str, *, force: bool = False) -> ProcessRecord:
        """End a process and all that descends from it; one that has ended stays as it is.

        It is asked softly first, and killed when that does not help; with ``force`` at once.

        Raises:
            InvalidArguments: no process of this session has the id.
            ShutdownIncomplete: something of it survived SIGKILL; it counts as running.
        """
        request = StopRequest(id=process_id, force=force)
        return await self._request("process/stop", request, ProcessRecord)

    async def update(self, process_id: str, *, completion_mode: CompletionMode) -> ProcessRecord:
        """Choose whether the end of a running process is announced.

        Raises:
            InvalidArguments: it is unknown here, or has ended.
        """
        request = CompletionModeRequest(id=process_id, mode=completion_mode)
        return await self._request("process/completion_mode", request, ProcessRecord)

    async def acknowledge(self, process_id: str, *, consumer: str) -> ProcessRecord:
        """Note who has heard how a process ended; the first one stays."""
        request = CompletionDeliveredRequest(id=process_id, consumer=consumer)
        return await self._request("process/completion_delivered", request, ProcessRecord)

    async def clean_up(self) -> tuple[ProcessRecord, ...]:
        """End every live process of the session but ``managed`` ones, and return their records."""
        reply = await self._request("process/cleanup", None, CleanupReply)
        return reply.cleaned or ()

    @property
    def _mode(self) -> PermissionMode:
        return self._environment.placement.mode

    async def _request(
        self,
        method: str,
        data: msgspec.Struct | None,
        reply_type: type[T],
        connection: HostConnection | None = None,
    ) -> T:
        connection = connection or await self._environment.connection()
        return await connection.request(method, data, reply_type, deadline_seconds=ANSWER_SECONDS)
