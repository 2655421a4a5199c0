"""The one peer of a delegating backend: its connection, and what passes through it both ways.

A peer that failed is never replaced, and no call is made twice.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from moorage.connection.host_end import HostConnection, HostLimits
from moorage.errors import (
    ConnectionLost,
    ExecutionError,
    LocalProtocolViolation,
    ProtocolMismatch,
)
from moorage.protocol.methods import METHODS
from moorage.protocol.secret import Secret

if TYPE_CHECKING:
    from moorage.protocol.binding import Binding, InitializeReply
    from moorage.protocol.processes import ProcessEvent
    from moorage.sdk.backend import ExecutionContextV4, MethodHandlerV4
    from moorage.transports.transport import Transport


class PeerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the way to a peer."""

    drain_seconds: float = 35.0
    """How long a cancelled call may take to end before the peer is given up."""

    max_unsent_events: int = 1024
    """Process events that wait for the host; events are hints, and more of them are dropped."""


class Peer:
    """Opened with the outer initialization, and closed with the outer connection at the latest."""

    def __init__(
        self,
        open_peer: Callable[[], Awaitable[Transport]],
        capabilities: frozenset[str],
        limits: PeerLimits,
    ) -> None:
        """Keep how to open it; nothing is opened yet."""
        self._open = open_peer
        self._capabilities = capabilities
        self._limits = limits
        self._is_used = False
        self._connection: HostConnection | None = None
        self._failed_end: ExecutionError | None = None
        self._events: deque[ProcessEvent] = deque()
        self._lose_event: Callable[[], None] = lambda: None
        self._event_came = anyio.Event()

    async def initialize(self, binding: Binding, context: ExecutionContextV4) -> str:
        """Open the peer and bind it to what the host binds this backend to.

        Raises:
            BackendUnavailable: its program cannot be started.
            ProtocolMismatch: it answers with another version or root, or lacks a capability.
            ConnectionLost: it went away.
        """
        if self._is_used:
            raise LocalProtocolViolation("the peer was opened once; it is never replaced.")
        self._is_used = True
        self._connection = HostConnection(
            await self._open(),
            Secret(secrets.token_hex(32)),
            limits=HostLimits(drain_seconds=self._limits.drain_seconds),
            on_process_event=self._on_process_event,
        )
        try:
            await context.lifetime.start(self._connection.run)
            self._check(binding, await self._connection.initialize(binding))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._end(self._connection)
            raise
        self._lose_event = context.lose_event
        context.lifetime.start_soon(self._pass_events_on, context)
        return binding.root

    def handler(self, name: str) -> MethodHandlerV4:
        """Return what hands the calls of one method to the peer."""

        async def delegate(request: Any, context: ExecutionContextV4) -> Any:
            if self._connection is None:
                raise ConnectionLost(f"{name} was not sent: the peer is not open.")
            return await self._connection.request(
                name, request, METHODS[name].reply, on_tool_call=context.invoke_tool
            )

        return delegate

    async def close(self) -> None:
        """Let go of the peer, if it was opened.

        Raises:
            ShutdownIncomplete: its program had to be killed; what it looked after may remain.
        """
        if self._connection is not None:
            await self._end(self._connection)
        if self._failed_end is not None:
            raise self._failed_end

    async def _end(self, connection: HostConnection) -> None:
        try:
            await connection.aclose()
        except ExecutionError as error:
            # Told by close, which comes later, and only once.
            self._failed_end = error

    def _check(self, binding: Binding, reply: InitializeReply) -> None:
        """Return when the peer serves the same as this backend is to serve."""
        if reply.root != binding.root:
            raise ProtocolMismatch(
                f"the peer serves {reply.root!r} instead of {binding.root!r}.",
                hint="Delegation needs one world: both sides have to serve the same root.",
            )
        if missing := self._capabilities - set(reply.capabilities):
            raise ProtocolMismatch(
                f"the peer does not offer {', '.join(sorted(missing))}, which was asked for.",
                hint="Choose another peer, or promise less.",
            )

    # ------------------------------------------------------------ events

    def _on_process_event(self, event: ProcessEvent, is_gap: bool) -> None:
        is_full = len(self._events) >= self._limits.max_unsent_events
        if is_gap or is_full:
            self._lose_event()
        if not is_full:
            self._events.append(event)
            self._event_came.set()

    async def _pass_events_on(self, context: ExecutionContextV4) -> None:
        while True:
            await self._event_came.wait()
            self._event_came = anyio.Event()
            while self._events:
                await context.emit_process(self._events.popleft())
