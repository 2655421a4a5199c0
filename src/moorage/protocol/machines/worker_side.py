"""The worker's machine: bytes in, events out; frames to write as return values. No I/O.

It admits requests, checks the token of each, and owes one terminal reply per admitted id. When a
handler is done is for ``connection.worker_end`` to know.
"""

from __future__ import annotations

import msgspec

from moorage.errors import (
    ExecutionError,
    InvalidArguments,
    LocalProtocolViolation,
    ProtocolMismatch,
    Refused,
    RemoteProtocolViolation,
    WorkerFailure,
)
from moorage.protocol.binding import (
    PROTOCOL_VERSION,
    Binding,
    InitializeReply,
    check_binding,
    check_version,
)
from moorage.protocol.failures import from_wire, to_wire
from moorage.protocol.machines.codec import Answer, Encoder, Request, decode, encode_data
from moorage.protocol.machines.events import (
    CallbackArrived,
    CancelArrived,
    FrameReady,
    InitializeArrived,
    InputEnded,
    RequestArrived,
    WorkerEvent,
)
from moorage.protocol.machines.intake import Intake
from moorage.protocol.machines.pin import MIN_TOKEN_CHARACTERS, Pin
from moorage.protocol.machines.result_limits import encode_result
from moorage.protocol.machines.state import State, move, why_not_ready
from moorage.protocol.machines.wire_limits import WireLimits
from moorage.protocol.methods import METHODS, REQUIRED_BY_CAPABILITY, SERVED_METHODS
from moorage.protocol.processes import ProcessEvent, StartRequest, check_start_reply
from moorage.protocol.tool_calls import ToolCall, ToolResult


class WorkerWireLimits(WireLimits, frozen=True, kw_only=True):
    """What one connection may hold at the worker."""


class _Version(msgspec.Struct):
    version: int


class _Live(msgspec.Struct):
    """A request whose terminal reply is still owed."""

    method: str
    message: object = None
    callbacks: set[str] = msgspec.field(default_factory=set)


class WorkerProtocol:
    """One connection as the worker sees it."""

    def __init__(
        self,
        pin: Pin,
        methods: frozenset[str],
        capabilities: frozenset[str] = frozenset(),
        limits: WorkerWireLimits | None = None,
    ) -> None:
        """Serve ``methods`` and promise ``capabilities``.

        Raises:
            LocalProtocolViolation: a method is not one of the protocol, or a capability is promised
                without the methods that it needs.
        """
        self._check_offer(methods, capabilities)
        self.state = State.OPENED
        self._pin = pin
        self._methods = methods
        self._capabilities = tuple(sorted(capabilities))
        self._limits = limits or WorkerWireLimits()
        self._intake: Intake[WorkerEvent] = Intake(self._take, self._limits.max_frame_bytes)
        self._encoder = Encoder(max_frame_bytes=self._limits.max_frame_bytes)
        self._live: dict[str, _Live] = {}
        self._callbacks: dict[str, str] = {}
        self._callback_count = 0
        self._event_count = 0

    @property
    def in_flight(self) -> tuple[str, ...]:
        """Return the ids whose terminal reply is still owed."""
        return tuple(self._live)

    # ------------------------------------------------------------ bytes in

    def receive(self, data: bytes) -> list[WorkerEvent | InputEnded]:
        """Take the next bytes, ``b""`` for their end, and return what they mean."""
        events = self._intake.receive(data)
        if self._intake.is_ended:
            self.state = move(self.state, State.ENDED)
        return events

    def _take(self, frame: bytes) -> WorkerEvent | None:
        request = decode(frame, Request, "the host sent a malformed frame")
        try:
            self._authorize(request)
            return self._route(request)
        except ExecutionError as error:
            return FrameReady(self._encoder.failure(self._refusal_id(request), to_wire(error)))

    def _refusal_id(self, request: Request) -> str:
        """Return the id that a refusal may carry without passing for another request's reply."""
        is_own = request.method not in {"cancel", "callback"} and request.id not in self._live
        return request.id if is_own and len(request.id) <= self._limits.max_id_characters else ""

    def _authorize(self, request: Request) -> None:
        expected = self._pin.token
        if expected is not None:
            is_authorized = expected.matches(request.token)
        else:
            is_authorized = len(request.token) >= MIN_TOKEN_CHARACTERS
        if not is_authorized:
            raise Refused(
                f"the token of {request.method[:80]} {request.id[:80]!r} is missing or wrong.",
                reason="token",
            )

    def _route(self, request: Request) -> WorkerEvent | None:
        match request.method:
            case "cancel":
                return CancelArrived(request.id) if request.id in self._live else None
            case "callback":
                return self._callback(request)
            case "initialize":
                self._check_id(request.id)
                return self._initialize(request)
            case _:
                self._check_id(request.id)
                return self._admit(request)

    def _check_id(self, request_id: str) -> None:
        if not request_id or len(request_id) > self._limits.max_id_characters:
            raise RemoteProtocolViolation(
                f"a request needs an id of 1 to {self._limits.max_id_characters} characters."
            )
        if request_id in self._live:
            raise RemoteProtocolViolation(
                f"request {request_id!r} is still running; the second one was not started.",
                hint="Use another id.",
            )
        if len(self._live) >= self._limits.max_in_flight:
            raise Refused(
                f"{len(self._live)} requests are running; that is the most.", reason="busy"
            )

    def _admit(self, request: Request) -> WorkerEvent:
        if reason := why_not_ready(self.state):
            raise RemoteProtocolViolation(reason)
        if request.method not in self._methods:
            raise ProtocolMismatch(f"this worker has no method {request.method[:80]!r}.")
        data = None
        if (expected := METHODS[request.method].request) is not None:
            try:
                data = decode(request.data, expected, request.method)
            except RemoteProtocolViolation as error:
                raise InvalidArguments(str(error)) from error
        self._live[request.id] = _Live(request.method, data)
        return RequestArrived(request.id, request.method, data)

    def _initialize(self, request: Request) -> WorkerEvent:
        if self.state is State.DEAD:
            raise RemoteProtocolViolation(why_not_ready(self.state))
        try:
            # The version first: a binding of another version may look different altogether.
            check_version(decode(request.data, _Version, "initialize").version)
            binding = decode(request.data, Binding, "initialize")
        except RemoteProtocolViolation as error:
            raise InvalidArguments(str(error)) from error
        check_binding(binding)
        if (reply := self._pin.repeat(binding)) is not None:
            if self.state is State.OPENED:
                self.state = move(move(self.state, State.INITIALIZING), State.READY)
            return FrameReady(self._encoder.reply(request.id, encode_data(reply)))
        if self.state is State.INITIALIZING:
            raise Refused("another initialization is running.", reason="initializing")
        self._pin.begin(request.token)
        self.state = move(self.state, State.INITIALIZING)
        self._live[request.id] = _Live("initialize", binding)
        return InitializeArrived(request.id, binding)

    def _callback(self, request: Request) -> WorkerEvent | None:
        parent_id = self._callbacks.get(request.id)
        if parent_id is None:
            return None
        self.forget_callback(request.id)
        try:
            answer = decode(request.data, Answer, "the host sent a malformed callback")
            if answer.error:
                error = from_wire(answer.error)
                return CallbackArrived(request.id, parent_id, error=error)
            result = decode(answer.data, ToolResult, "the host sent a malformed callback")
        except RemoteProtocolViolation as violation:
            return CallbackArrived(request.id, parent_id, error=violation, is_malformed=True)
        return CallbackArrived(request.id, parent_id, result=result)

    # ------------------------------------------------------------ frames out

    def initialized(self, request_id: str, root: str) -> bytes:
        """Return the reply of a successful initialization, which is now fixed.

        Raises:
            LocalProtocolViolation: no such initialization is running.
        """
        live = self._pop(request_id)
        if not isinstance(live.message, Binding):
            raise LocalProtocolViolation(f"request {request_id!r} is not an initialize.")
        reply = InitializeReply(
            version=PROTOCOL_VERSION, root=root, capabilities=self._capabilities
        )
        self._pin.succeed(live.message, reply)
        if self.state is not State.ENDED:
            self.state = move(self.state, State.READY)
        return self._encoder.reply(request_id, encode_data(reply))

    def reply(self, request_id: str, result: object) -> bytes:
        """Return the terminal reply with ``result``; one that cannot be sent becomes an error.

        Raises:
            LocalProtocolViolation: no such request is running.
        """
        live = self._pop(request_id)
        try:
            if isinstance(live.message, StartRequest):
                check_start_reply(live.message, result)
            return self._encoder.reply(request_id, self._encode_result(result))
        except LocalProtocolViolation as error:
            failure = WorkerFailure(f"{live.method} was done, but its answer is lost: {error}")
        except WorkerFailure as error:
            failure = error
        return self._encoder.failure(request_id, to_wire(failure))

    def fail(self, request_id: str, error: BaseException) -> bytes:
        """Return the terminal reply with an error; a failed initialization ends all others.

        Raises:
            LocalProtocolViolation: no such request is running.
        """
        live = self._pop(request_id)
        if live.method == "initialize":
            self._pin.fail()
            if self.state is not State.ENDED:
                self.state = move(self.state, State.DEAD)
        return self._encoder.failure(request_id, to_wire(error))

    def call_tool(self, parent_id: str, call: ToolCall) -> tuple[str, bytes]:
        """Return the id and frame of a nested tool call for a live request.

        Raises:
            LocalProtocolViolation: the request has ended, has too many calls outstanding, or the
                call is too large.
        """
        live = self._live.get(parent_id)
        if live is None:
            raise LocalProtocolViolation(
                f"request {parent_id!r} has ended; tools are called only while it lives."
            )
        if len(live.callbacks) >= self._limits.max_tool_calls_per_request:
            raise LocalProtocolViolation(
                f"request {parent_id!r} waits for {len(live.callbacks)} tool calls; "
                "that is the most at once."
            )
        self._callback_count += 1
        callback_id = f"tool-{self._callback_count}"
        frame = self._encoder.tool(callback_id, parent_id, encode_data(call))
        live.callbacks.add(callback_id)
        self._callbacks[callback_id] = parent_id
        return callback_id, frame

    def forget_callback(self, callback_id: str) -> None:
        """Stop waiting for a nested tool call; a later answer is dropped."""
        parent_id = self._callbacks.pop(callback_id, None)
        if parent_id is not None:
            self._live[parent_id].callbacks.discard(callback_id)

    def process_event(self, event: ProcessEvent) -> bytes:
        """Return the frame of a process event.

        It is empty when the event cannot be sent: before the initialization, or too large. The
        numbering then shows the host a gap.
        """
        self._event_count += 1
        if self.state is not State.READY:
            return b""
        try:
            return self._encoder.process(encode_data(event), self._event_count)
        except LocalProtocolViolation:
            return b""

    def lose_event(self) -> None:
        """Count a process event that was never sent, so that the host sees a gap."""
        self._event_count += 1

    def _pop(self, request_id: str) -> _Live:
        live = self._live.pop(request_id, None)
        if live is None:
            raise LocalProtocolViolation(f"request {request_id!r} is not running.")
        for callback_id in live.callbacks:
            del self._callbacks[callback_id]
        return live

    def _encode_result(self, result: object) -> bytes:
        if isinstance(result, ToolResult):
            return encode_result(result, self._limits.result)
        return encode_data(result)

    @staticmethod
    def _check_offer(methods: frozenset[str], capabilities: frozenset[str]) -> None:
        if unknown := methods - SERVED_METHODS:
            raise LocalProtocolViolation(
                f"the protocol has no method {', '.join(sorted(unknown))} that a provider serves."
            )
        for capability in capabilities:
            missing = REQUIRED_BY_CAPABILITY.get(capability, frozenset()) - methods
            if missing:
                raise LocalProtocolViolation(
                    f"capability {capability} promises {', '.join(sorted(missing))}, "
                    "which this provider does not serve."
                )
