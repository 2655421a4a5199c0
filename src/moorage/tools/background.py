"""The actions of ``bash`` on background commands: start, read, write, stop, list and update."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.process.managed.live import StartSpec, owner_of
from moorage.protocol.processes import ProcessRecord, ReadOptions
from moorage.tools.classify import Classification
from moorage.tools.process_views import (
    list_view,
    read_view,
    started_view,
    stopped_view,
    updated_view,
    written_view,
)
from moorage.tools.results import success

if TYPE_CHECKING:
    from moorage.process.child import Child
    from moorage.process.managed.control import ProcessManager
    from moorage.process.managed.reservation import Reservation
    from moorage.protocol.tool_calls import ToolResult
    from moorage.protocol.workspace_tools import BashArguments
    from moorage.tools.catalogue import ToolContext

_NANOSECONDS_PER_MS = 1_000_000

_LOOKING = Classification(
    risk="medium",
    reason="looks at background commands and executes nothing",
    read_only=True,
    concurrency_safe=True,
)
_CONTROLLING = Classification(
    risk="high", reason="acts on a running background command", concurrency_safe=True
)
_STOPPING = msgspec.structs.replace(_CONTROLLING, destructive=True)


def processes_of(context: ToolContext) -> ProcessManager:
    """Return the background processes of the session.

    Raises:
        InvalidArguments: this worker has none.
        ConfigError: their records cannot be kept.
    """
    processes = context.processes
    if processes is None or not context.session:
        raise InvalidArguments(
            "bash: background commands need a session that owns them, and here is none; "
            "nothing ran.",
            hint="Run the command in the foreground.",
        )
    return processes


class Successor:
    """Takes a foreground command over as a background process of the session."""

    def __init__(self, processes: ProcessManager, spec: StartSpec) -> None:
        """Set an id and a log aside."""
        self._processes = processes
        self._reservation: Reservation = processes.reserve(spec)
        self.write = self._reservation.write
        self.discard = self._reservation.discard

    async def adopt(self, child: Child) -> str:
        """Take over the running child, its pipes and what it has printed.

        Raises:
            ProvisionError: its record or log cannot be written; the child is still the caller's.
        """
        return (await self._processes.adopt(self._reservation, child)).id


def start_spec(
    arguments: BashArguments, command: str, folder: tuple[int, str], context: ToolContext
) -> StartSpec:
    """Return what goes on, or starts, in the background; ``folder`` is open, and its path."""
    descriptor, cwd = folder
    return StartSpec(
        command=command,
        cwd=cwd,
        cwd_fd=descriptor,
        plan=context.plan,
        owner=owner_of(context.actor, context.session),
        variables=context.variables,
        lifecycle=arguments.lifecycle,
        completion_mode=arguments.completion_mode or "resume",
    )


async def start(
    spec: StartSpec, classification: Classification, context: ToolContext
) -> ToolResult:
    """Start a command in the background and return its record at once."""
    record = await processes_of(context).start(spec)
    seen = msgspec.structs.replace(
        classification,
        risk="high",
        reason=f"background: {classification.reason}",
        concurrency_safe=False,
    )
    facts = {"action": "start", "process_id": record.id, "classification": seen}
    return success(started_view(record), {**_plain(record), **_plain(facts)})


async def control(arguments: BashArguments, context: ToolContext) -> ToolResult:
    """Do what an action other than ``run`` asks for; none of them executes a new command.

    Raises:
        InvalidArguments: there is no such process in this session, or the argument is wrong.
        Refused: the mode is ``read_only``, and the process may do more than that.
    """
    return await _ACTIONS[arguments.action](arguments, context)


async def _read(arguments: BashArguments, context: ToolContext) -> ToolResult:
    processes, process_id = processes_of(context), _named(arguments)
    wait_ms = max(arguments.wait_ms or 0, 0)
    options = ReadOptions(
        max_bytes=max(arguments.max_bytes or 0, 0),
        offset_bytes=arguments.offset_bytes,
        wait_ns=wait_ms * _NANOSECONDS_PER_MS,
        min_dwell_ns=int(processes.limits.dwell_seconds * 1e9),
    )
    snapshot = await processes.read(context.session, process_id, options)
    if processes.completion_pending(context.session, process_id) and snapshot.process.is_terminal:
        # Whoever has read how it ended need not be told again.
        consumer = f"read:{context.actor}"
        record = processes.completion_delivered(context.session, process_id, consumer)
        snapshot = msgspec.structs.replace(snapshot, process=record)
    return _result(
        "read",
        read_view(snapshot),
        snapshot.process,
        _LOOKING,
        output=snapshot.output,
        truncated=snapshot.truncated,
        start_offset=snapshot.start_offset,
        end_offset=snapshot.end_offset,
        total_bytes=snapshot.total_bytes,
        timed_out=snapshot.timed_out,
        duration_ms=snapshot.duration_ns // _NANOSECONDS_PER_MS,
        status=snapshot.process.status,
        exit_code=snapshot.process.exit_code,
    )


async def _write(arguments: BashArguments, context: ToolContext) -> ToolResult:
    processes, process_id = processes_of(context), _named(arguments)
    if arguments.input is None:
        raise InvalidArguments(
            "bash: the action write needs input; nothing was written.",
            hint="Give the text, with a newline where the command expects one.",
        )
    _check_may_act(processes.get(context.session, process_id), context)
    data = arguments.input.encode("utf-8")
    record, number = await processes.write(context.session, process_id, data)
    view = written_view(record, number, len(data))
    return _result("write", view, record, _CONTROLLING, bytes_written=number)


async def _stop(arguments: BashArguments, context: ToolContext) -> ToolResult:
    processes, process_id = processes_of(context), _named(arguments)
    _check_may_act(processes.get(context.session, process_id), context)
    record = await processes.stop(context.session, process_id)
    return _result("stop", stopped_view(record), record, _STOPPING)


async def _list(arguments: BashArguments, context: ToolContext) -> ToolResult:
    del arguments
    records = list(processes_of(context).list(context.session))
    facts = {"action": "list", "processes": records, "classification": _LOOKING}
    return success(list_view(records), _plain(facts))


async def _update(arguments: BashArguments, context: ToolContext) -> ToolResult:
    processes, process_id = processes_of(context), _named(arguments)
    mode = arguments.completion_mode
    if mode is None:
        raise InvalidArguments(
            "bash: the action update needs completion_mode; nothing has changed.",
            hint="It is resume or detached.",
        )
    _check_may_act(processes.get(context.session, process_id), context)
    record = processes.update(context.session, process_id, mode)
    return _result("update", updated_view(record), record, _CONTROLLING, completion_mode=mode)


_ACTIONS: dict[str, Callable[[BashArguments, ToolContext], Awaitable[ToolResult]]] = {
    "read": _read,
    "write": _write,
    "stop": _stop,
    "list": _list,
    "update": _update,
}

CONTROL_ACTIONS = frozenset(_ACTIONS)


def _named(arguments: BashArguments) -> str:
    if not arguments.process_id:
        raise InvalidArguments(
            f"bash: the action {arguments.action} needs process_id; nothing happened.",
            hint="The action list shows the ids of this session.",
        )
    return arguments.process_id


def _check_may_act(record: ProcessRecord, context: ToolContext) -> None:
    """Return when a caller of this mode may act on the process.

    What a process does with input is done with the rights that it was started with.
    """
    if context.mode is PermissionMode.READ_ONLY and record.sandbox_mode != "read-only":
        raise Refused(
            f"the permission mode is read_only, and {record.id} runs with more rights than that. "
            "Nothing happened.",
            reason="boundary_denied",
            hint="The user can change the session's mode.",
        )


def _result(
    action: str, view: str, record: ProcessRecord, classification: Classification, **facts: Any
) -> ToolResult:
    found = {
        "action": action,
        "process_id": record.id,
        **facts,
        "process": record,
        "classification": classification,
    }
    return success(view, _plain(found))


def _plain(value: object) -> dict[str, Any]:
    plain = msgspec.to_builtins(value)
    assert isinstance(plain, dict)  # noqa: S101 - a struct or a mapping became one
    return plain
