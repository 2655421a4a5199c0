"""Scripted protocol conversations: both pure machines, joined without I/O.

A test says what one side does and looks at what the other side heard. Every frame is delivered at
once, in pieces of ``piece_bytes`` when that is set, and kept in the transcript.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from moorage.errors import ExecutionError
from moorage.protocol.binding import PROTOCOL_VERSION, Binding
from moorage.protocol.machines.events import (
    FrameReady,
    HostEvent,
    InitializeArrived,
    InputEnded,
    WorkerEvent,
)
from moorage.protocol.machines.host_side import HostProtocol, HostWireLimits
from moorage.protocol.machines.pin import Pin
from moorage.protocol.machines.worker_side import WorkerProtocol, WorkerWireLimits
from moorage.protocol.methods import SERVED_METHODS
from moorage.protocol.processes import ProcessEvent
from moorage.protocol.secret import Secret
from moorage.protocol.tool_calls import ToolCall, ToolResult

Speaker = Literal["host", "worker"]

TOKEN = Secret("0123456789abcdef" * 4)
"""The token of every playbook's host, unless told otherwise."""

BINDING = Binding(version=PROTOCOL_VERSION, root="/workspace", session="conversation-1")
"""The binding of every playbook's host, unless told otherwise."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What the conversation starts from."""

    token: Secret = TOKEN
    pin: Pin | None = None
    methods: frozenset[str] = SERVED_METHODS
    capabilities: frozenset[str] = frozenset()
    host_limits: HostWireLimits = HostWireLimits()
    worker_limits: WorkerWireLimits = WorkerWireLimits()
    piece_bytes: int = 0


class Playbook:
    """One conversation between a host and a worker."""

    def __init__(self, stage: Stage | None = None) -> None:
        """Set the stage; nothing has been said."""
        stage = stage or Stage()
        self.host = HostProtocol(stage.token, stage.host_limits)
        self.worker = WorkerProtocol(
            stage.pin or Pin(), stage.methods, stage.capabilities, stage.worker_limits
        )
        self.transcript: list[tuple[Speaker, bytes]] = []
        self._piece_bytes = stage.piece_bytes
        self._at_host: list[HostEvent | InputEnded] = []
        self._at_worker: list[WorkerEvent | InputEnded] = []

    # ------------------------------------------------------------ what the host does

    def open(self, binding: Binding = BINDING, root: str = "") -> None:
        """Let the host initialize and the worker succeed, and forget what both heard."""
        self.initialize(binding)
        initializations = (e for e in self.at_worker() if isinstance(e, InitializeArrived))
        for event in initializations:
            self.worker_says(self.worker.initialized(event.request_id, root or binding.root))
        self.at_host()

    def initialize(self, binding: Binding = BINDING) -> str:
        """Let the host initialize; return the id."""
        request_id, frame = self.host.initialize(binding)
        self.host_says(frame)
        return request_id

    def ask(self, method: str, data: object = None) -> str:
        """Let the host send a request; return the id."""
        request_id, frame = self.host.request(method, data)
        self.host_says(frame)
        return request_id

    def cancel(self, request_id: str) -> None:
        """Let the host cancel a request."""
        self.host_says(self.host.cancel(request_id))

    def answer(self, callback_id: str, result: ToolResult | ExecutionError) -> None:
        """Let the host answer a nested tool call."""
        self.host_says(self.host.answer(callback_id, result))

    def host_says(self, data: bytes) -> None:
        """Deliver any bytes to the worker, and what it answers by itself to the host."""
        self.transcript.append(("host", data))
        for piece in self._pieces(data):
            self._reach_worker(piece)

    def host_ends(self) -> None:
        """Let the worker see the end of its input."""
        self._reach_worker(b"")

    # ------------------------------------------------------------ what the worker does

    def reply(self, request_id: str, result: object) -> None:
        """Let the worker finish a request with a result."""
        self.worker_says(self.worker.reply(request_id, result))

    def fail(self, request_id: str, error: BaseException) -> None:
        """Let the worker finish a request with an error."""
        self.worker_says(self.worker.fail(request_id, error))

    def call_tool(self, parent_id: str, call: ToolCall) -> str:
        """Let the worker call a tool at the host; return the id."""
        callback_id, frame = self.worker.call_tool(parent_id, call)
        self.worker_says(frame)
        return callback_id

    def publish(self, event: ProcessEvent) -> None:
        """Let the worker publish a process event."""
        self.worker_says(self.worker.process_event(event))

    def worker_says(self, data: bytes) -> None:
        """Deliver any bytes to the host, and what it answers by itself to the worker."""
        self.transcript.append(("worker", data))
        for piece in self._pieces(data):
            self._reach_host(piece)

    def worker_ends(self) -> None:
        """Let the host see the end of its input."""
        self._reach_host(b"")

    # ------------------------------------------------------------ what was heard

    def at_host(self) -> list[HostEvent | InputEnded]:
        """Return, once, what the host heard since the last look."""
        heard, self._at_host = self._at_host, []
        return heard

    def at_worker(self) -> list[WorkerEvent | InputEnded]:
        """Return, once, what the worker heard since the last look."""
        heard, self._at_worker = self._at_worker, []
        return heard

    def said(self, speaker: Speaker) -> list[dict[str, Any]]:
        """Return everything one side has said so far, decoded."""
        spoken = b"".join(data for who, data in self.transcript if who == speaker)
        return [msgspec.json.decode(line) for line in spoken.splitlines()]

    def _reach_worker(self, piece: bytes) -> None:
        for event in self.worker.receive(piece):
            if isinstance(event, FrameReady):
                self.worker_says(event.frame)
            else:
                self._at_worker.append(event)

    def _reach_host(self, piece: bytes) -> None:
        for event in self.host.receive(piece):
            if isinstance(event, FrameReady):
                self.host_says(event.frame)
            else:
                self._at_host.append(event)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        step = self._piece_bytes or max(len(data), 1)
        for start in range(0, len(data), step):
            yield data[start : start + step]
