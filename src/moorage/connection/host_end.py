"""The host's live end of a connection: requests out, replies and nested calls in.

Nothing is ever replayed. When the connection fails, what was in flight raises ``OutcomeUnknown``
and everything later ``ConnectionLost``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from anyio.lowlevel import checkpoint

from moorage.connection.callbacks import Callbacks, ToolCallHandler
from moorage.errors import (
    ConnectionLost,
    ExecutionError,
    LocalProtocolViolation,
    OutcomeUnknown,
)
from moorage.protocol.binding import Binding, InitializeReply
from moorage.protocol.machines.events import (
    FrameReady,
    InputEnded,
    ProcessEventArrived,
    ReplyArrived,
    ToolCallArrived,
)
from moorage.protocol.machines.host_side import HostProtocol, HostWireLimits
from moorage.protocol.machines.state import State
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.secret import Secret
from moorage.transports.transport import Transport

T = TypeVar("T")

logger = logging.getLogger(__name__)


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one host connection."""

    wire: HostWireLimits = HostWireLimits()

    max_unsent_frames: int = 4096
    """Cancels and answers that wait for a worker to read; beyond it the worker is given up."""

    drain_seconds: float = 0.0
    """How long a cancelled caller waits for the handler's end, after which the worker is given up;
    with 0 it does not wait, and the worker is trusted to come to that end."""


class _Waiting:
    """One request, from its first byte to its reply."""

    __slots__ = ("event", "is_sent", "method", "on_tool_call", "reply")

    def __init__(self, method: str, on_tool_call: ToolCallHandler | None) -> None:
        self.method = method
        self.on_tool_call = on_tool_call
        self.event = anyio.Event()
        self.is_sent = False
        self.reply = ReplyArrived("")

    def settle(self, reply: ReplyArrived) -> None:
        self.reply = reply
        self.event.set()


class HostConnection:
    """Asks one worker, over one transport, for as long as both live.

    The owner starts ``run`` in its task group, or uses ``async with``.
    """

    def __init__(
        self,
        transport: Transport,
        token: Secret,
        *,
        limits: HostLimits | None = None,
        on_process_event: Callable[[ProcessEvent, bool], None] | None = None,
        on_tool_call: ToolCallHandler | None = None,
    ) -> None:
        """Keep the transport, which the connection now owns.

        ``on_process_event(event, is_gap)`` is called from the reader and must not block; ``is_gap``
        says that events were lost before this one, so the records should be listed again.
        """
        self._transport = transport
        self._limits = limits or HostLimits()
        self._protocol = HostProtocol(token, self._limits.wire)
        self._on_process_event = on_process_event
        self._on_tool_call = on_tool_call
        self._callbacks = Callbacks(self._protocol, self._send_aside)
        self._waiting: dict[str, _Waiting] = {}
        self._unsent_count = 0
        self._output = anyio.Lock(fast_acquire=True)
        self._reading = anyio.CancelScope()
        self._tasks: TaskGroup | None = None
        self._failure: ExecutionError | None = None
        self._needs_diagnosis = True
        self._close_failure: ExecutionError | None = None
        self._closed = anyio.Event()
        self._owned = AsyncExitStack()

    @property
    def capabilities(self) -> frozenset[str]:
        """Return what the worker promised beyond the base protocol."""
        return self._protocol.capabilities

    @property
    def failure(self) -> ExecutionError | None:
        """Return why the connection is no longer usable, or None."""
        return self._failure

    async def __aenter__(self) -> Self:
        """Start the reader in a task group of the connection's own."""
        tasks = await self._owned.enter_async_context(anyio.create_task_group())
        await tasks.start(self.run)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connection."""
        try:
            await self.aclose()
        finally:
            await self._owned.aclose()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Read until the connection ends, then close the transport; never raises its failure."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._transport.watch)
                task_status.started()
                with self._reading:
                    await self._read()
                if self._needs_diagnosis:
                    self._failure = await self._diagnosed()
                self._fail_waiting()
                self._tasks.cancel_scope.cancel()
        finally:
            self._stop("the connection was closed here.")
            self._fail_waiting()
            with anyio.CancelScope(shield=True):
                await self._close_transport()
            self._closed.set()

    async def aclose(self) -> None:
        """End the connection: end of input, grace, then force.

        Raises:
            ShutdownIncomplete: the grace ran out; state may remain.
        """
        self._stop("the connection was closed here.")
        if self._tasks is None:
            await self._close_transport()
        else:
            await self._closed.wait()
        failure, self._close_failure = self._close_failure, None
        if failure is not None:
            raise failure

    # ------------------------------------------------------------ asking

    async def initialize(self, binding: Binding) -> InitializeReply:
        """Bind the connection; a failure or cancellation ends it.

        Raises:
            InvalidArguments: the binding is malformed, or the worker is bound to another one.
            ProtocolMismatch: the worker speaks another version.
            ConnectionLost: the worker went away.
        """
        self._check_usable()
        request_id, frame = self._protocol.initialize(binding)
        try:
            reply: InitializeReply = await self._exchange(
                request_id, frame, _Waiting("initialize", None)
            )
        finally:
            if self._protocol.state is not State.READY:
                self._stop("the initialization did not succeed.")
        return reply

    async def request(
        self,
        method: str,
        data: msgspec.Struct | None,
        reply_type: type[T],
        *,
        deadline_seconds: float | None = None,
        on_tool_call: ToolCallHandler | None = None,
    ) -> T:
        """Ask and wait for the answer.

        Cancelled, it tells the worker and returns at once; the worker's handler still drains.

        Raises:
            ExecutionError: what the worker answered, by the table of ``protocol.failures``.
            OutcomeUnknown: the connection failed or the deadline passed, with the request sent.
            ConnectionLost: the connection had failed before anything of the request was sent.
            ProtocolMismatch: the worker does not promise what the method needs; nothing was sent.
            LocalProtocolViolation: the request is too large or out of turn; nothing was sent.
            RemoteProtocolViolation: the answer is not one of this method.
        """
        self._check_usable()
        request_id, frame = self._protocol.request(method, data, reply_type)
        waiting = _Waiting(method, on_tool_call or self._on_tool_call)
        if deadline_seconds is None:
            value: T = await self._exchange(request_id, frame, waiting)
            return value
        with anyio.move_on_after(deadline_seconds):
            value = await self._exchange(request_id, frame, waiting)
        if waiting.event.is_set():
            return value
        if not waiting.is_sent:
            raise ConnectionLost(
                f"the worker did not take {method} within {deadline_seconds:g} s; nothing was sent."
            )
        raise OutcomeUnknown(
            f"{method} was not answered within {deadline_seconds:g} s and was cancelled.",
            hint="It may or may not have taken effect; look before you repeat it.",
        )

    async def _exchange(self, request_id: str, frame: bytes, waiting: _Waiting) -> Any:
        self._waiting[request_id] = waiting
        try:
            await self._send(frame, waiting)
            await waiting.event.wait()
        except anyio.get_cancelled_exc_class():
            await self._drain(request_id, waiting)
            raise
        finally:
            if self._waiting.pop(request_id, None) is not None:
                self._give_up(request_id, waiting)
            self._callbacks.end(request_id)
        if waiting.reply.error is not None:
            raise waiting.reply.error
        return waiting.reply.value

    def _give_up(self, request_id: str, waiting: _Waiting) -> None:
        """Forget a request that its caller no longer waits for; tell the worker if it knows it."""
        cancel = self._protocol.cancel(request_id)
        if waiting.is_sent and self._failure is None and self._tasks is not None:
            self._tasks.start_soon(self._send_aside, cancel)

    async def _drain(self, request_id: str, waiting: _Waiting) -> None:
        """Wait for the end of a cancelled request; one that does not come costs the connection."""
        seconds = self._limits.drain_seconds
        if not seconds or not waiting.is_sent or self._failure is not None:
            return
        with anyio.move_on_after(seconds, shield=True):
            await self._send_aside(self._protocol.cancel(request_id, is_awaited=True))
            await waiting.event.wait()
        if not waiting.event.is_set():
            self._stop(f"a cancelled {waiting.method} did not end within {seconds:g} s.")

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise ConnectionLost(f"the connection is gone; nothing was sent. {self._failure}")
        if self._tasks is None:
            raise LocalProtocolViolation("the connection is not running; start run() first.")

    # ------------------------------------------------------------ out

    async def _send(self, frame: bytes, waiting: _Waiting) -> None:
        async with self._output:
            if self._failure is not None:
                return
            waiting.is_sent = True
            try:
                await self._transport.send(frame)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                waiting.is_sent = self._transport.is_torn
                self._stop("the worker no longer reads.", needs_diagnosis=True)
            except BaseException:
                waiting.is_sent = self._transport.is_torn
                if self._transport.is_torn:
                    self._stop("a request was cancelled when half of it was written.")
                raise

    async def _send_aside(self, frame: bytes) -> None:
        """Send a cancel or an answer, which no caller waits for."""
        self._unsent_count += 1
        if self._unsent_count > self._limits.max_unsent_frames:
            self._stop("the worker asks without reading the answers.")
        else:
            await self._send(frame, _Waiting("", None))
        self._unsent_count -= 1

    # ------------------------------------------------------------ in

    async def _read(self) -> None:
        while self._failure is None:
            try:
                data = await self._transport.receive()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                data = b""
            for event in self._protocol.receive(data):
                match event:
                    case ReplyArrived(request_id):
                        self._waiting.pop(request_id).settle(event)
                    case InputEnded(failure):
                        text = str(failure or "the worker closed the connection.")
                        self._stop(text, needs_diagnosis=True)
                    case _:
                        self._take(event)
            # Whoever was woken goes on first; getting ready to read again is not urgent.
            await checkpoint()

    def _take(self, event: ToolCallArrived | FrameReady | ProcessEventArrived) -> None:
        tasks = self._tasks
        assert tasks is not None  # noqa: S101 - only run() reads
        match event:
            case ToolCallArrived(_, parent_id):
                self._callbacks.start(tasks, event, self._waiting[parent_id].on_tool_call)
            case FrameReady(frame):
                # Never awaited here: a reader that waits to write can wait for ever.
                tasks.start_soon(self._send_aside, frame)
            case ProcessEventArrived(process_event, is_gap):
                if self._on_process_event is not None:
                    self._on_process_event(process_event, is_gap)

    # ------------------------------------------------------------ the end

    def _stop(self, cause: str, *, needs_diagnosis: bool = False) -> None:
        """Make the connection unusable for good; the first cause counts."""
        if self._failure is None:
            self._failure = ConnectionLost(cause)
            self._needs_diagnosis = needs_diagnosis
            self._reading.cancel()

    async def _diagnosed(self) -> ConnectionLost:
        diagnosis = await self._transport.diagnose()
        return ConnectionLost(f"{self._failure} {diagnosis}".rstrip())

    def _fail_waiting(self) -> None:
        for waiting in self._waiting.values():
            waiting.settle(ReplyArrived("", None, self._loss(waiting)))
        self._waiting.clear()

    def _loss(self, waiting: _Waiting) -> ExecutionError:
        if not waiting.is_sent:
            return ConnectionLost(f"nothing was sent of {waiting.method}: {self._failure}")
        if waiting.method == "initialize":
            return ConnectionLost(f"the worker could not be initialized: {self._failure}")
        return OutcomeUnknown(
            f"the connection was lost while {waiting.method} was in flight: {self._failure}",
            hint="It may or may not have taken effect; look before you repeat it.",
        )

    async def _close_transport(self) -> None:
        try:
            await self._transport.aclose()
        except ExecutionError as error:
            self._close_failure = error
