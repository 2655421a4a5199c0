"""The worker's live end of a connection: serves one provider over one transport.

The order of the end is fixed: admit nothing more, cancel every request, let every handler end,
cancel the tasks of the connection, close the provider, close the transport. The end of input, a
malformed frame and broken output all lead there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from moorage.connection.in_flight import InFlight
from moorage.connection.provider import Handler, Provider
from moorage.errors import ExecutionError
from moorage.protocol.machines.events import (
    CallbackArrived,
    CancelArrived,
    FrameReady,
    InitializeArrived,
    InputEnded,
    RequestArrived,
)
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.state import State
from moorage.protocol.machines.worker_side import WorkerProtocol, WorkerWireLimits
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.secret import Secret
from moorage.protocol.tool_calls import ToolCall
from moorage.transports.transport import Transport

logger = logging.getLogger(__name__)

Conclude = Callable[[str, Any], bytes]
"""Makes the terminal reply of a request from its outcome."""


class WorkerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one worker connection."""

    wire: WorkerWireLimits = WorkerWireLimits()

    last_send_seconds: float = 5.0
    """After the end of input: for replies to a host that may no longer read them."""

    max_unsent_frames: int = 1024
    """Refusals that wait for a host to read; beyond it the connection ends."""

    max_idle_tasks: int = 8
    """Tasks kept for the next requests."""


async def serve(
    transport: Transport,
    provider: Provider,
    *,
    token: Secret | None = None,
    pin: Pin | None = None,
    limits: WorkerLimits | None = None,
) -> None:
    """Serve until the host or the transport ends, then close the provider, then the transport.

    ``token`` holds from the first request when the worker got it at start; ``pin`` instead joins
    several connections of one worker under one token and binding.

    Raises:
        LocalProtocolViolation: the provider promises what it does not serve; nothing was read.
        Exception: whatever closing the provider raised.
    """
    await WorkerConnection(transport, provider, pin or Pin(token), limits or WorkerLimits()).run()


_Job = tuple[InFlight, Handler, Any, Conclude]


class _IdleTask:
    """A task that waits for the next request."""

    __slots__ = ("_event", "_job")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._job: _Job | None = None

    def take(self, job: _Job | None) -> None:
        self._job = job
        self._event.set()

    async def next_job(self) -> _Job | None:
        await self._event.wait()
        return self._job


class WorkerConnection:
    """One connection, from its first byte to the close of its provider."""

    lifetime: TaskGroup
    """Tasks that outlive requests; they end after all handlers and before the provider closes."""

    _handlers: TaskGroup

    def __init__(
        self, transport: Transport, provider: Provider, pin: Pin, limits: WorkerLimits
    ) -> None:
        """Prepare; nothing is read yet."""
        self._transport = transport
        self._provider = provider
        self._methods = provider.methods
        self._limits = limits
        self._protocol = WorkerProtocol(
            pin, frozenset(self._methods), provider.capabilities, limits.wire
        )
        self._in_flight: dict[str, InFlight] = {}
        self._idle: list[_IdleTask] = []
        self._is_draining = False
        self._output = anyio.Lock(fast_acquire=True)
        self._is_output_broken = False
        self._unsent_count = 0
        self._reading = anyio.CancelScope()

    @property
    def is_ready(self) -> bool:
        """Return whether a host has shown the token and is bound."""
        return self._protocol.state is State.READY

    async def run(self) -> None:
        """Serve to the end."""
        try:
            async with anyio.create_task_group() as self.lifetime:
                async with anyio.create_task_group() as self._handlers:
                    with self._reading:
                        await self._read()
                    self._drain()
                self.lifetime.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await self._provider.close()
                finally:
                    await self._transport.aclose()

    def _drain(self) -> None:
        self._is_draining = True
        self.lifetime.start_soon(self._close_output_in_time)
        for idle in self._idle:
            idle.take(None)
        for live in self._in_flight.values():
            live.scope.cancel()

    # ------------------------------------------------------------ in

    async def _read(self) -> None:
        while True:
            try:
                data = await self._transport.receive()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                data = b""
            for event in self._protocol.receive(data):
                match event:
                    case InputEnded(failure):
                        if failure is not None:
                            logger.error("the connection ends: %s", failure)
                        return
                    case FrameReady(frame):
                        # Never awaited here: a reader that waits to write sees no end of input.
                        self._handlers.start_soon(self._send_aside, frame)
                    case _:
                        self._take(event)
            # The handler goes on first; getting ready to read again is not urgent.
            await checkpoint()

    def _take(
        self, event: RequestArrived | CancelArrived | CallbackArrived | InitializeArrived
    ) -> None:
        match event:
            case RequestArrived(request_id, method, data):
                self._start(request_id, self._methods[method], data, self._protocol.reply)
            case CancelArrived(request_id):
                self._in_flight[request_id].scope.cancel()
            case CallbackArrived(_, parent_id):
                self._in_flight[parent_id].settle(event)
            case InitializeArrived(request_id, binding):
                provider = self._provider
                self._start(request_id, provider.initialize, binding, self._protocol.initialized)

    def _start(self, request_id: str, handler: Handler, argument: Any, conclude: Conclude) -> None:
        live = self._in_flight[request_id] = InFlight(self, request_id)
        job = (live, handler, argument, conclude)
        if self._idle:
            self._idle.pop().take(job)
        else:
            self._handlers.start_soon(self._handle, job)

    # ------------------------------------------------------------ handlers

    async def _handle(self, job: _Job | None) -> None:
        """Run handlers one after another: starting a task costs more than the rest of the way."""
        while job is not None:
            await self._serve(*job)
            if self._is_draining or len(self._idle) >= self._limits.max_idle_tasks:
                return
            idle = _IdleTask()
            self._idle.append(idle)
            job = await idle.next_job()

    async def _serve(
        self, live: InFlight, handler: Handler, argument: Any, conclude: Conclude
    ) -> None:
        """Run one handler to its very end; only then send the terminal reply."""
        result: Any = None
        is_done = False
        error: Exception | None = None
        try:
            with live.scope:
                if not live.scope.cancel_called:
                    result = await handler(argument, live)
                    is_done = True
        except Exception as caught:  # noqa: BLE001 - whatever a handler raises is its reply
            error = caught
        except BaseException:
            self._end(live, self._protocol.fail, live.why_unfinished())
            raise
        if is_done and live.failure is None:
            frame = self._end(live, conclude, result)
        else:
            if error is not None and not isinstance(error, ExecutionError):
                logger.error("a handler failed", exc_info=error)
            frame = self._end(
                live, self._protocol.fail, live.failure or error or live.why_unfinished()
            )
        await self._send(frame)

    def _end(self, live: InFlight, conclude: Conclude, outcome: Any) -> bytes:
        del self._in_flight[live.request_id]
        return conclude(live.request_id, outcome)

    # ------------------------------------------------------------ what handlers may do

    async def publish(self, event: ProcessEvent) -> None:
        """Send a process event."""
        if frame := self._protocol.process_event(event):
            await self._send_whole(frame)

    def lose_event(self) -> None:
        """Let the host know by a gap that an event was not sent."""
        self._protocol.lose_event()

    async def open_callback(self, live: InFlight, call: ToolCall) -> str:
        """Send a nested tool call and return its id."""
        callback_id, frame = self._protocol.call_tool(live.request_id, call)
        live.expect(callback_id)
        await self._send_whole(frame)
        return callback_id

    def close_callback(self, callback_id: str) -> None:
        """Stop waiting for a nested tool call."""
        self._protocol.forget_callback(callback_id)

    # ------------------------------------------------------------ out

    async def _send_whole(self, frame: bytes) -> None:
        # A request may be cancelled at any time; half a frame would cost the whole connection.
        with anyio.CancelScope(shield=True):
            await self._send(frame)

    async def _send_aside(self, frame: bytes) -> None:
        """Send an answer that no handler stands behind: a refusal, or a repeated reply."""
        self._unsent_count += 1
        if self._unsent_count > self._limits.max_unsent_frames:
            logger.error("the connection ends: the host asks without reading the answers")
            self._reading.cancel()
        else:
            await self._send(frame)
        self._unsent_count -= 1

    async def _send(self, frame: bytes) -> None:
        async with self._output:
            if self._is_output_broken or self._transport.is_torn:
                return
            try:
                await self._transport.send(frame)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._is_output_broken = True
                # Blocked input must not delay the end.
                self._reading.cancel()

    async def _close_output_in_time(self) -> None:
        await anyio.sleep(self._limits.last_send_seconds)
        self._is_output_broken = True
        await self._transport.close_sending()
