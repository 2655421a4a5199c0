"""The host's machine: bytes in, events out; frames to write as return values. No I/O.

It numbers requests, knows which are in flight, and reads every reply by the type of its method.
Replies that nobody waits for are dropped. Nothing is ever sent twice.
"""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.errors import (
    ExecutionError,
    LocalProtocolViolation,
    ProtocolMismatch,
    Refused,
    RemoteProtocolViolation,
)
from moorage.protocol.binding import Binding, InitializeReply, check_binding, check_version
from moorage.protocol.failures import from_wire, to_wire
from moorage.protocol.machines.codec import Encoder, Message, decode, encode_data
from moorage.protocol.machines.events import (
    FrameReady,
    HostEvent,
    InputEnded,
    ProcessEventArrived,
    ReplyArrived,
    ToolCallArrived,
)
from moorage.protocol.machines.intake import Intake
from moorage.protocol.machines.result_limits import encode_result
from moorage.protocol.machines.state import State, move, why_not_ready
from moorage.protocol.machines.wire_limits import WireLimits
from moorage.protocol.methods import METHODS, SERVED_METHODS
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.secret import Secret
from moorage.protocol.tool_calls import ToolCall, ToolResult


class HostWireLimits(WireLimits, frozen=True, kw_only=True):
    """What one connection may hold at the host, which waits for more than a worker works on."""

    max_in_flight: int = 4096


class _Pending(msgspec.Struct):
    """A request whose terminal reply has not arrived."""

    method: str
    reply_type: Any
    callbacks: set[str] = msgspec.field(default_factory=set)


class HostProtocol:
    """One connection as the host sees it."""

    def __init__(self, token: Secret, limits: HostWireLimits | None = None) -> None:
        """Start with nothing sent."""
        self.state = State.OPENED
        self.capabilities: frozenset[str] = frozenset()
        self._limits = limits or HostWireLimits()
        self._intake: Intake[HostEvent] = Intake(self._take, self._limits.max_frame_bytes)
        self._encoder = Encoder(token, self._limits.max_frame_bytes)
        self._pending: dict[str, _Pending] = {}
        self._callbacks: dict[str, str] = {}
        self._request_count = 0
        self._last_sequence = 0

    @property
    def in_flight(self) -> tuple[str, ...]:
        """Return the ids whose terminal reply has not arrived."""
        return tuple(self._pending)

    # ------------------------------------------------------------ frames out

    def initialize(self, binding: Binding) -> tuple[str, bytes]:
        """Return the id and frame of an initialization.

        Raises:
            InvalidArguments: the binding is malformed; nothing may be written.
            LocalProtocolViolation: the connection is not one that can be initialized.
        """
        check_binding(binding)
        if self.state not in {State.OPENED, State.READY}:
            raise LocalProtocolViolation(why_not_ready(self.state))
        opened = self._open("initialize", binding, InitializeReply)
        if self.state is State.OPENED:
            self.state = move(self.state, State.INITIALIZING)
        return opened

    def request(self, method: str, data: object, reply_type: Any = None) -> tuple[str, bytes]:
        """Return the id and frame of a request; ``reply_type`` None takes that of the method.

        Raises:
            ProtocolMismatch: the worker does not promise what the method needs.
            LocalProtocolViolation: the method is unknown, out of turn, or the frame too large.
        """
        if method not in SERVED_METHODS:
            raise LocalProtocolViolation(f"the protocol has no method {method!r} for a host.")
        if reason := why_not_ready(self.state):
            raise LocalProtocolViolation(reason)
        needed = METHODS[method].capability
        if needed and needed not in self.capabilities:
            raise ProtocolMismatch(
                f"the worker does not offer {needed}, which {method} needs; nothing was sent.",
                hint="Install this Moorage revision in the environment.",
            )
        return self._open(method, data, reply_type or METHODS[method].reply)

    def cancel(self, request_id: str, *, is_awaited: bool = False) -> bytes:
        """Return the frame that cancels a request; empty when it had ended.

        The request is forgotten, and so is its reply, unless that ``is_awaited`` all the same.
        """
        if not (request_id in self._pending if is_awaited else self.forget(request_id)):
            return b""
        return self._encoder.request(request_id, "cancel")

    def forget(self, request_id: str) -> bool:
        """Stop waiting for a request, and return whether it was waited for."""
        pending = self._pending.pop(request_id, None)
        if pending is None:
            return False
        for callback_id in pending.callbacks:
            del self._callbacks[callback_id]
        return True

    def answer(self, callback_id: str, result: ToolResult | ExecutionError) -> bytes:
        """Return the answer to a nested tool call; an error once the parent has ended."""
        parent_id = self._callbacks.pop(callback_id, None)
        if parent_id is None:
            return self._answer(callback_id, error=to_wire(_parent_ended()))
        self._pending[parent_id].callbacks.discard(callback_id)
        if isinstance(result, ExecutionError):
            return self._answer(callback_id, error=to_wire(result))
        try:
            data = encode_result(result, self._limits.result)
            return self._answer(callback_id, data=data)
        except LocalProtocolViolation as error:
            return self._answer(callback_id, error=to_wire(error))

    def _open(self, method: str, data: object, reply_type: Any) -> tuple[str, bytes]:
        if len(self._pending) >= self._limits.max_in_flight:
            raise LocalProtocolViolation(
                f"{len(self._pending)} requests are in flight; that is the most."
            )
        request_id = str(self._request_count + 1)
        encoded = b"" if data is None else encode_data(data)
        frame = self._encoder.request(request_id, method, encoded)
        self._request_count += 1
        self._pending[request_id] = _Pending(method, reply_type)
        return request_id, frame

    def _answer(self, callback_id: str, *, data: bytes = b"", error: str = "") -> bytes:
        # The data of a callback is a whole reply object of its own.
        inner = Encoder(max_frame_bytes=self._limits.max_frame_bytes)
        reply = inner.failure(callback_id, error) if error else inner.reply(callback_id, data)
        return self._encoder.request(callback_id, "callback", reply[:-1])

    # ------------------------------------------------------------ bytes in

    def receive(self, data: bytes) -> list[HostEvent | InputEnded]:
        """Take the next bytes, ``b""`` for their end, and return what they mean."""
        events = self._intake.receive(data)
        if self._intake.is_ended:
            self.state = move(self.state, State.ENDED)
        return events

    def _take(self, frame: bytes) -> HostEvent | None:
        message = decode(frame, Message, "the worker sent a malformed frame")
        match message.method:
            case "":
                return self._reply(message)
            case "tool":
                return self._tool(message)
            case "process":
                return self._process(message)
            case _:
                return None

    def _reply(self, message: Message) -> HostEvent | None:
        pending = self._pending.get(message.id)
        if pending is None or not self.forget(message.id):
            return None
        error: ExecutionError | None = None
        value: Any = None
        if message.error:
            error = from_wire(message.error)
        else:
            try:
                value = decode(message.data, pending.reply_type, f"the reply to {pending.method}")
            except RemoteProtocolViolation as violation:
                error = violation
        if pending.method == "initialize" and self.state is State.INITIALIZING:
            error = self._settle(value, error)
        return ReplyArrived(message.id, None if error else value, error)

    def _settle(
        self, reply: InitializeReply | None, error: ExecutionError | None
    ) -> ExecutionError | None:
        """Move on after the first initialization was answered; return its error, if any."""
        if reply is not None:
            try:
                check_version(reply.version)
            except ProtocolMismatch as mismatch:
                error = mismatch
            else:
                self.capabilities = frozenset(reply.capabilities)
        self.state = move(self.state, State.DEAD if error else State.READY)
        return error

    def _tool(self, message: Message) -> HostEvent | None:
        pending = self._pending.get(message.parent_id)
        is_usable = 0 < len(message.id) <= self._limits.max_id_characters
        if not is_usable or message.id in self._callbacks:
            return None
        try:
            if pending is None:
                raise _parent_ended()
            if len(pending.callbacks) >= self._limits.max_tool_calls_per_request:
                raise Refused("too many tool calls of one request are running.", reason="busy")
            call = decode(message.data, ToolCall, "the worker sent a malformed tool call")
        except ExecutionError as error:
            return FrameReady(self._answer(message.id, error=to_wire(error)))
        pending.callbacks.add(message.id)
        self._callbacks[message.id] = message.parent_id
        return ToolCallArrived(message.id, message.parent_id, call)

    def _process(self, message: Message) -> HostEvent | None:
        # A worker that does not number its events sends 0, and no gap can be seen.
        is_gap = message.sequence > self._last_sequence + 1
        try:
            event = decode(message.data, ProcessEvent, "a process event")
        except RemoteProtocolViolation:
            return None
        self._last_sequence = max(self._last_sequence, message.sequence)
        return ProcessEventArrived(event, is_gap)


def _parent_ended() -> Refused:
    return Refused("the request that called this tool has ended.", reason="parent_ended")
