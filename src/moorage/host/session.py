"""``Session``: the public handle for one conversation's tools in one environment."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import msgspec
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from moorage.backends.backend import Placement
from moorage.errors import (
    EnvironmentDied,
    InvalidArguments,
    OutcomeUnknown,
    ToolFailed,
)
from moorage.host import artifacts, byte_exchange
from moorage.host.completions import Completions
from moorage.host.environments import Environment
from moorage.host.events import EventFeed
from moorage.host.extending.enabling import Extensions
from moorage.host.extending.toolbox import Toolbox
from moorage.host.processes import Processes
from moorage.host.record import CallLog, hash_of
from moorage.host.results import (
    Artifact,
    CommandResult,
    FileChange,
    SessionEvent,
    command_result,
    file_change,
)
from moorage.host.session_store import Selection
from moorage.host.typed_calls import TypedCalls
from moorage.policy.decide import check_call
from moorage.policy.permission import PermissionMode
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.tool_calls import ExecuteRequest, ToolCall, ToolResult
from moorage.protocol.workspace_tools import ToolSpec


class Keeper(Protocol):
    """Who keeps the selections of sessions."""

    def regrant(
        self, saved: Selection, mode: str | None, roots: Sequence[str | os.PathLike[str]]
    ) -> tuple[Selection, Placement]:
        """Save a changed grant and return it with what the backend is to be asked for."""

    def fork(self, parent: Selection, *, name: str = "") -> AbstractAsyncContextManager[Session]:
        """Open a new session with the selection of another one."""


TOOL_DEADLINE_SECONDS = 300.0
"""A tool that is no command answers well within this, unless a disk is stuck."""

COMMAND_DEADLINE_SECONDS = 3600.0 + 60.0
"""The longest timeout a command may ask for, and the time to end it."""


class Session(TypedCalls):
    """One conversation's tools in one environment.

    Made by :func:`moorage.open_session`. Calls may overlap. A lost worker never replays a call: the
    call that was in flight raises :class:`~moorage.errors.OutcomeUnknown`, the next one reconnects.
    """

    def __init__(
        self,
        selection: Selection,
        environment: Environment,
        log: CallLog,
        folder: Path,
        *,
        keeper: Keeper,
        tasks: TaskGroup,
    ) -> None:
        """Put the parts together; nothing is started before the first call."""
        self._selection = selection
        self._environment = environment
        self._log = log
        self._folder = folder
        self._keeper = keeper
        self._actor = selection.id
        self._mode: PermissionMode | None = None
        self._events = EventFeed()
        self.processes = Processes(environment, selection.id)
        """The background processes of the session."""
        self.extensions = Extensions(self, tasks)
        """Optional extensions, none of which is enabled at first."""
        self.toolbox = Toolbox(self.extensions)
        """Every tool that the session offers."""
        self.hands_over = True
        """Whether a slow command of a model's ``bash`` goes on in the background."""
        self._completions = Completions(environment, self.processes, folder / "completions.json")
        environment.listen(self._on_process)

    @property
    def id(self) -> str:
        """Return the session's id."""
        return self._selection.id

    @property
    def environment(self) -> str:
        """Return the name of the environment that this session was opened in."""
        return self._selection.environment

    @property
    def backend(self) -> str:
        """Return the name of the backend of its environment."""
        return self._environment.placement.profile.backend

    @property
    def workspace(self) -> str:
        """Return the absolute path of the workspace inside the environment."""
        return self._environment.root

    @property
    def mode(self) -> PermissionMode:
        """Return the permission mode."""
        return self._mode or self._environment.placement.mode

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that a model may call here."""
        return self.toolbox.specs

    async def capabilities(self) -> frozenset[str]:
        """Return the capabilities that the worker promised."""
        return (await self._environment.connection()).capabilities

    async def call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        input: bytes | None = None,  # noqa: A002 - the name that subprocess uses
    ) -> ToolResult:
        """Call a tool as a model would, and return its whole result.

        Raises:
            UnknownTool, InvalidArguments, Refused: nothing happened.
            OutcomeUnknown: the worker went away during the call.
        """
        if tool_name == "bash" and not self.hands_over:
            arguments = {**(arguments or {}), "hand_over": False}
        encoded = _encoded(tool_name, arguments or {})
        call = ToolCall(
            name=_named(tool_name, "the tool"), arguments=encoded.decode(), id=self._log.next_id()
        )
        who = _named(actor or self._actor, "the actor")
        result = await self._recorded(
            lambda: self._checked(call, who, input),
            name=tool_name,
            call_id=call.id,
            actor=who,
            arguments_sha256=hash_of(encoded),
            purpose=str((arguments or {}).get("purpose", "")),
        )
        change = file_change(result.structured_content or {})
        if change is not None and not result.is_error:
            self._events.announce_change(change)
        return result

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str = "",
        timeout_seconds: int = 300,
        input: bytes | None = None,  # noqa: A002 - the name that subprocess uses
        purpose: str = "",
        scope: str = "",
    ) -> CommandResult:
        """Run a command in a fresh Bash and wait for its end, at most ``timeout_seconds``.

        A sequence of arguments is quoted. A non-zero exit is a result, not an error.

        Raises:
            OutcomeUnknown, EnvironmentDied: the end was not seen; ``result`` is what was known.
            Refused, InvalidArguments, ConfinementUnavailable: nothing ran.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        arguments = {"command": text, "timeout_seconds": timeout_seconds, "cwd": cwd}
        arguments |= {"purpose": purpose, "scope": scope, "hand_over": False}
        try:
            result = await self.call("bash", arguments, input=input)
        except OutcomeUnknown as error:
            error.result = command_result({"outcome": "unknown"})
            raise
        return _ended(result)

    async def present_artifact(self, path: str) -> Artifact:
        """Publish an immutable copy of a file and return the copy that the host keeps."""
        return artifacts.artifact_of(await self._typed("present_artifact", {"path": path}))

    async def read_bytes(self, path: str) -> bytes:
        """Return a file's bytes, of any size.

        Raises:
            ProtocolMismatch: the worker does not offer ``moorage.bytes.v1``.
            ToolFailed: the file cannot be read, or changed meanwhile.
        """
        parts: list[bytes] = []

        async def read() -> ToolResult:
            connection = await self._environment.connection()
            parts.append(await byte_exchange.read_whole(connection, path, self.id, self.mode))
            return _bytes_result("read_bytes", path, sum(map(len, parts)))

        await self._recorded(read, name="read_bytes", call_id=self._log.next_id(), actor=self.id)
        return b"".join(parts)

    async def read_pieces(self, path: str) -> AsyncIterator[bytes]:
        """Yield a file's bytes in pieces of at most 1 MiB, for files larger than memory.

        Raises:
            ProtocolMismatch: the worker does not offer ``moorage.bytes.v1``.
            ToolFailed: the file cannot be read, or changed meanwhile.
        """
        connection = await self._environment.connection()
        async for piece in byte_exchange.read_pieces(connection, path, self.id, self.mode):
            yield piece

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file's bytes atomically, of any size.

        Raises:
            ProtocolMismatch: the worker does not offer ``moorage.bytes.v1``.
        """

        async def write() -> ToolResult:
            connection = await self._environment.connection()
            await byte_exchange.write_bytes(connection, path, data, self.id, self.mode)
            return _bytes_result("write_bytes", path, len(data))

        await self._recorded(write, name="write_bytes", call_id=self._log.next_id(), actor=self.id)
        digest = f"sha256:{sha256(data).hexdigest()}"
        self._events.announce_change(FileChange(action="overwrite", path=path, new_sha256=digest))

    async def grant(
        self, *, mode: str | None = None, writable_roots: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Change the permission mode or add writable folders, as the user asked.

        For the user's own code; no tool reaches it. The choice is saved; the worker is replaced.

        Raises:
            ConfigError: there is no such mode or folder; nothing has changed.
        """
        self._selection, placement = self._keeper.regrant(self._selection, mode, writable_roots)
        await self._environment.replace(placement)

    def fork(self, *, name: str = "") -> AbstractAsyncContextManager[Session]:
        """Open a new session in the same kind of environment: its own one, unless that is shared.

        A local workspace, and a folder of the host that is mounted, is the same for both.
        """
        return self._keeper.fork(self._selection, name=name)

    def subagent(self, actor: str) -> Session:
        """Return this session for a sub-agent, in place: the same environment, in its own name."""
        if not actor.strip():
            raise InvalidArguments("a sub-agent needs a name.")
        return self._seen_by(_named(actor, "the actor"))

    def side(self) -> Session:
        """Return this session for a conversation beside it, which reads and changes nothing.

        It cannot be woken, so that its commands have their whole time.
        """
        side = self._seen_by(f"side-{secrets.token_hex(4)}")
        side._mode, side.hands_over = PermissionMode.READ_ONLY, False  # noqa: SLF001 - one of us
        return side

    def _seen_by(self, actor: str) -> Session:
        seen = copy(self)
        seen._actor = actor  # noqa: SLF001 - one of us
        seen.processes = Processes(self._environment, actor)
        return seen

    def events(self) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[SessionEvent]]:
        """Open a stream of the session's events, from now on."""
        return self._events.open()

    def completions(self) -> Completions:
        """Return how its background processes ended, for an agent that is to be told."""
        return self._completions

    def _on_process(self, event: ProcessEvent | None) -> None:
        if event is not None:
            self._events.announce_process(event)
        self._completions.look()

    async def _recorded(
        self, work: Callable[[], Awaitable[ToolResult]], **facts: Any
    ) -> ToolResult:
        """Make one call and put how it went into the record, whatever that is."""
        self._environment.check_open()
        return await self._log.recorded(work, mode=self.mode.value, **facts)

    async def _checked(self, call: ToolCall, actor: str, stdin: bytes | None) -> ToolResult:
        spec = self.toolbox.spec(call.name)
        check_call(call.name, spec.effect, mode=self.mode, highest=self._selection.mode)
        if self.toolbox.is_of_extension(call.name):
            return await self.toolbox.answer(call)
        return await self._execute(call, actor, stdin)

    async def _execute(self, call: ToolCall, actor: str, stdin: bytes | None) -> ToolResult:
        connection = await self._environment.connection()
        uploaded = await byte_exchange.upload_input(connection, stdin) if stdin is not None else ""
        request = ExecuteRequest(
            call=call, actor=actor, permission_mode=self.mode.value, input=uploaded
        )
        result = await connection.request(
            "execute", request, ToolResult, deadline_seconds=_deadline_seconds(call)
        )
        if call.name == "present_artifact" and not result.is_error:
            return await artifacts.collect(connection, result, self._folder / "artifacts")
        return result


def _bytes_result(action: str, path: str, size: int) -> ToolResult:
    return ToolResult(structured_content={"action": action, "path": path, "size_bytes": size})


def _deadline_seconds(call: ToolCall) -> float:
    """Return how long the worker may take: a command's own limit, and time to end it, included."""
    return COMMAND_DEADLINE_SECONDS if call.name == "bash" else TOOL_DEADLINE_SECONDS


def _encoded(tool_name: str, arguments: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(arguments))
    except UnicodeEncodeError as error:
        raise InvalidArguments(
            f"{tool_name}: the arguments hold text that is not valid Unicode; nothing was called.",
            hint="Bytes that are no text travel with write_bytes, read_bytes and input.",
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidArguments(f"{tool_name}: the arguments are no JSON: {error}.") from error


def _named(name: str, what: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments(
            f"the name {name!r} of {what} is not valid Unicode; nothing was called.",
            hint="Take a name of plain letters.",
        ) from error
    return name


def _ended(result: ToolResult) -> CommandResult:
    """Return how a command ended, or raise when its end was not seen."""
    told = command_result(result.structured_content or {})
    if told.outcome == "environment_died":
        raise EnvironmentDied(
            "the environment ended before the command did.",
            result=told,
            hint="The next call starts a new one; this command is not run again.",
        )
    if result.is_error and told.envelope.get("outcome") == "unknown":
        raise OutcomeUnknown("nobody saw how the command ended.", result=told)
    if result.is_error:
        raise ToolFailed(f"bash: {result.text}", result=result)
    return told
