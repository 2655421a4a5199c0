"""Monitor: watch something by a script of the model's own; each line that it prints is an event.

The script decides how often it looks, what it leaves out, what it tries again and when it ends. Its
standard error is kept for diagnosis and tells nobody.
"""

from __future__ import annotations

import collections
import secrets
import shlex
from typing import Annotated

import anyio
import msgspec
from msgspec import Meta

from moorage.errors import ExecutionError, InvalidArguments
from moorage.host.completions import how_it_goes
from moorage.host.extending.enabling import ToolHandler
from moorage.host.extending.reach import ExtensionHost
from moorage.policy.permission import Effect
from moorage.protocol.processes import ProcessRecord
from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.protocol.workspace_tools import ToolArguments, ToolSpec

KEPT_EVENTS = 1000
LONGEST_EVENT = 4096
"""Characters of one event; the rest of a longer line is left out, and that is said."""

STDERR_BYTES = 4096

GUIDANCE = (
    "To be told of changes outside, such as a CI run, an API or a log, start a monitor: a script "
    "that prints one line for each thing worth knowing and nothing else. It decides how often it "
    "looks, what it leaves out, what it tries again and when it ends; never end your turn on a "
    "promise to look again later. For a command that simply takes long, use bash in the background."
)


class StartArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``monitor_start``."""

    command: Annotated[
        str, Meta(description="Bash script. Each complete line of its stdout is one event.")
    ]
    cwd: Annotated[str, Meta(description="Folder to run in, relative to the workspace root.")] = ""


class MonitorArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of a tool for one monitor."""

    monitor_id: Annotated[str, Meta(description="Id from monitor_start or monitor_list.")]


class ReadArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``monitor_read``."""

    monitor_id: Annotated[str, Meta(description="Id from monitor_start or monitor_list.")]
    after: Annotated[
        int, Meta(ge=0, description="Show the events after this number; 0 shows all that are kept.")
    ] = 0


class ListArguments(ToolArguments, frozen=True, kw_only=True):
    """Arguments of ``monitor_list``."""


SPECS = (
    ToolSpec(
        name="monitor_start",
        effect=Effect.EXECUTE,
        arguments=StartArguments,
        description="Start a monitor: a script whose every line of output is reported as an event. "
        "Returns once it is accepted; the monitor goes on by itself.",
    ),
    ToolSpec(
        name="monitor_list",
        effect=Effect.READ,
        arguments=ListArguments,
        is_idempotent=True,
        description="List the monitors of this session, with their state and number of events.",
    ),
    ToolSpec(
        name="monitor_read",
        effect=Effect.READ,
        arguments=ReadArguments,
        is_idempotent=True,
        description="Read the events of a monitor again, and the end of its stderr.",
    ),
    ToolSpec(
        name="monitor_stop",
        effect=Effect.EXECUTE,
        arguments=MonitorArguments,
        is_destructive=True,
        is_idempotent=True,
        description="Stop a monitor.",
    ),
)


class _Watched:
    """One monitor: its process, and the events that it has printed."""

    def __init__(self, record: ProcessRecord, command: str, stderr_file: str) -> None:
        self.record = record
        self.command = command
        self.stderr_file = stderr_file
        self.count = 0
        self.events: collections.deque[tuple[int, str]] = collections.deque(maxlen=KEPT_EVENTS)
        self.ended = anyio.Event()
        self._rest = ""

    def lines(self, text: str, *, is_end: bool) -> list[tuple[int, str]]:
        """Take output in and return the numbered lines that it completes; at the end all of it."""
        *whole, self._rest = (self._rest + text).split("\n")
        if is_end and self._rest:
            whole.append(self._rest)
            self._rest = ""
        new = []
        for line in whole:
            self.count += 1
            new.append((self.count, _bounded(line.removesuffix("\r"))))
        self.events.extend(new)
        # Nobody ever sees more of an endless line, so no more of it is kept.
        self._rest = self._rest[: LONGEST_EVENT + 1]
        return new


class Monitor:
    """The extension."""

    name = "monitor"
    guidance = GUIDANCE
    specs = SPECS

    def __init__(self) -> None:
        """Watch nothing yet."""
        self._host: ExtensionHost
        self._watched: dict[str, _Watched] = {}

    async def open(self, host: ExtensionHost) -> dict[str, ToolHandler]:
        """Begin in a session."""
        self._host = host
        return {
            "monitor_start": self._start,
            "monitor_list": self._list,
            "monitor_read": self._read,
            "monitor_stop": self._stop,
        }

    async def aclose(self) -> None:
        """Stop every monitor."""
        async with anyio.create_task_group() as stopping:
            for watched in self._watched.values():
                if not watched.ended.is_set():
                    stopping.start_soon(self._host.processes.stop, watched.record.id)

    # The tools.

    async def _start(self, arguments: StartArguments) -> ToolResult:
        if not arguments.command.strip():
            raise InvalidArguments("monitor_start: the command is blank; nothing ran.")
        operation = f"monitor-{secrets.token_hex(8)}"
        stderr_file = f'"${{TMPDIR:-/tmp}}/{operation}.stderr"'
        # A shell of its own, so that what is wrong with the script is no event either.
        script = f"exec bash -c {shlex.quote(arguments.command)} 2>{stderr_file}"
        accepted = await self._host.processes.start(
            script,
            cwd=arguments.cwd,
            tty=False,
            operation_id=operation,
            completion_mode="detached",
        )
        watched = _Watched(accepted.record, arguments.command, stderr_file)
        self._watched[accepted.record.id] = watched
        self._host.start_soon(self._watch, watched)
        text = f"Monitor {accepted.record.id} is running. You are told of each line it prints."
        return _result(text, monitor_id=accepted.record.id, process=accepted.record)

    async def _list(self, _: ListArguments) -> ToolResult:
        found = []
        for watched in self._watched.values():
            watched.record = await self._host.processes.get(watched.record.id)
            found.append(watched)
        lines = [
            f"{each.record.id} {how_it_goes(each.record)}, {each.count} events: {each.command}"
            for each in found
        ]
        return _result(
            "\n".join(lines) or "No monitors in this session.",
            monitors=[
                {"monitor_id": each.record.id, "events": each.count, "process": each.record}
                for each in found
            ],
        )

    async def _read(self, arguments: ReadArguments) -> ToolResult:
        watched = self._find(arguments.monitor_id)
        events = [each for each in watched.events if each[0] > arguments.after]
        missing = (events[0][0] if events else watched.count + 1) - 1 - arguments.after
        stderr = await self._stderr(watched)
        record = await self._host.processes.get(watched.record.id)
        lines = [f"{record.id} {how_it_goes(record)}, {watched.count} events"]
        if missing > 0:
            lines.append(f"({missing} earlier events are no longer kept.)")
        lines += [f"{number}: {line}" for number, line in events] or ["(no new events)"]
        if stderr:
            lines += ["stderr:", stderr]
        return _result(
            "\n".join(lines),
            monitor_id=record.id,
            events=[{"number": number, "line": line} for number, line in events],
            stderr=stderr,
            process=record,
        )

    async def _stop(self, arguments: MonitorArguments) -> ToolResult:
        watched = self._find(arguments.monitor_id)
        record = await self._host.processes.stop(watched.record.id)
        await watched.ended.wait()
        return _result(f"Monitor {record.id} {how_it_goes(record)}.", process=record)

    def _find(self, monitor_id: str) -> _Watched:
        if monitor_id not in self._watched:
            raise InvalidArguments(
                f"no monitor of this session has the id {monitor_id!r}.",
                hint="monitor_list shows their ids.",
            )
        return self._watched[monitor_id]

    # Watching.

    async def _watch(self, watched: _Watched) -> None:
        """Tell of each complete line, and of the end where it came by itself."""
        try:
            async for window in self._host.processes.follow(watched.record.id):
                watched.record = window.process
                is_end = window.process.is_terminal and window.end_offset >= window.total_bytes
                for number, line in watched.lines(window.output, is_end=is_end):
                    self._tell(watched, f"event {number}: {line}", number=number, line=line)
            if watched.record.terminal_cause != "requested_stop":
                await self._tell_end(watched)
        except ExecutionError as error:
            self._tell(watched, f"was lost: {error}")
        finally:
            watched.ended.set()

    async def _tell_end(self, watched: _Watched) -> None:
        text = how_it_goes(watched.record)
        stderr = await self._stderr(watched) if watched.record.exit_code != 0 else ""
        self._tell(watched, f"{text}\nstderr:\n{stderr}" if stderr else text)

    def _tell(self, watched: _Watched, text: str, **data: object) -> None:
        facts = {"monitor_id": watched.record.id, **data}
        self._host.tell(f"[Monitor {watched.record.id}] {text}", facts)

    async def _stderr(self, watched: _Watched) -> str:
        """Return the end of what the script wrote for diagnosis."""
        arguments = {"command": f"tail -c {STDERR_BYTES} {watched.stderr_file}"}
        result = await self._host.call("bash", arguments)
        return str((result.structured_content or {}).get("stdout", "")).rstrip("\n")


def _bounded(line: str) -> str:
    return f"{line[:LONGEST_EVENT]} (cut)" if len(line) > LONGEST_EVENT else line


def _result(text: str, **structured: object) -> ToolResult:
    return ToolResult(
        content=(ContentPart(type="text", text=text),),
        structured_content=msgspec.to_builtins(structured),
    )
