"""A worker that outlives the host that started it: many connections, one provider, one end.

It listens on a private socket, joins every connection by one pin, and ends in order when it is
told to, or when nobody was connected and nothing ran for long enough.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from moorage.connection.worker_end import WorkerConnection, WorkerLimits
from moorage.errors import ExecutionError, ProvisionError, WorkerFailure
from moorage.protocol.failures import to_wire
from moorage.protocol.machines.pin import Pin
from moorage.transports import private_sockets, standing_lock
from moorage.transports.unix_socket import UnixSocketTransport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup
    from anyio.streams.memory import MemoryObjectSendStream

    from moorage.connection.provider import Handler, Provider, RequestContext
    from moorage.protocol.binding import Binding
    from moorage.protocol.processes import ProcessEvent
    from moorage.protocol.secret import Secret
    from moorage.protocol.tool_calls import ToolCall

logger = logging.getLogger(__name__)

READY = b"ready\n"
SOCKET = "socket"


class DetachedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a worker that stays."""

    connection: WorkerLimits = WorkerLimits()

    idle_seconds: float = 600.0
    """Without a connection; then the worker ends unless something that it started still runs."""

    predecessor_seconds: float = 9.0
    """For the worker before this one, which may still be ending what it held."""

    retry_seconds: float = 0.02
    """Between two looks at whether the predecessor is gone, or room for a connection is there."""

    initialize_seconds: float = 10.0
    """For a new connection to show the token and bind itself; then it is closed."""

    max_connections: int = 64

    max_unsent_events: int = 1024
    """Process events that wait for one host to read; beyond it that host sees a gap."""


class DetachedWorker:
    """Serves one provider to every host of one session."""

    _tasks: TaskGroup

    def __init__(
        self,
        provider: Provider,
        folder: Path,
        token: Secret | None,
        *,
        is_idle: Callable[[], bool],
        limits: DetachedLimits | None = None,
    ) -> None:
        """Keep what is needed; ``is_idle`` tells whether nothing that was started still runs."""
        self._folder = folder
        self._is_idle = is_idle
        self._limits = limits or DetachedLimits()
        self._pin = Pin(token)
        self._provider = provider
        self._clients: set[_Client] = set()
        self._came = anyio.Event()
        self._left = anyio.Event()
        self._ending = anyio.Event()
        self._initializing = anyio.Lock()
        self._root: str | None = None

    async def run(self, ready_fd: int) -> None:
        """Serve until the end, telling ``ready_fd`` when hosts can connect.

        Raises:
            ExecutionError: it could not begin, or could not end all that it had started.
        """
        lock: int | None = None
        listening: socket.socket | None = None
        try:
            try:
                lock = await self._take_lock()
                listening = self._listen()
                os.write(ready_fd, READY)
            except ExecutionError as error:
                with suppress(OSError):
                    os.write(ready_fd, to_wire(error).encode())
                raise
            except BrokenPipeError as error:
                raise ProvisionError("nobody waits for this worker any more.") from error
            finally:
                os.close(ready_fd)
            async with anyio.create_task_group() as self._tasks:
                await self._serve(listening)
                self._tasks.cancel_scope.cancel()
        finally:
            if listening is not None:
                listening.close()
            with anyio.CancelScope(shield=True):
                await self._provider.close()
            # Only now may a successor begin.
            if lock is not None:
                os.close(lock)

    async def _take_lock(self) -> int:
        with anyio.move_on_after(self._limits.predecessor_seconds):
            while True:
                if (lock := standing_lock.take(self._folder)) is not None:
                    return lock
                await anyio.sleep(self._limits.retry_seconds)
        raise ProvisionError(
            "the worker before this one has not ended yet.",
            hint="Try again; `moorage session stop` ends it by force.",
        )

    def _listen(self) -> socket.socket:
        try:
            return private_sockets.listen(self._folder / SOCKET)
        except OSError as error:
            raise ProvisionError(
                f"the worker cannot listen in {self._folder}: {error.strerror}.",
                hint="Make Moorage's home writable, and put it on a file system with sockets.",
            ) from error

    # ------------------------------------------------------------ connections

    async def _serve(self, listening: socket.socket) -> None:
        async with anyio.create_task_group() as connections:
            async with anyio.create_task_group() as watching:
                for watch in (self._watch_signals, self._watch_idleness):
                    watching.start_soon(watch)
                watching.start_soon(self._accept, listening, connections)
                await self._ending.wait()
                watching.cancel_scope.cancel()
            # Whoever comes now finds nobody, and starts a successor that waits for our end.
            with suppress(OSError):
                os.unlink(self._folder / SOCKET)
            listening.close()
            for client in self._clients:
                client.transport.close_receiving()

    async def _accept(self, listening: socket.socket, connections: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listening)
            try:
                connected, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError as error:
                logger.warning("a connection cannot be taken: %s", error.strerror)
                await anyio.sleep(self._limits.retry_seconds)
                continue
            if self._is_welcome(connected):
                client = _Client(self, connected)
                self._clients.add(client)
                self._came.set()
                connections.start_soon(self._attend, client)
            else:
                connected.close()

    def _is_welcome(self, connected: socket.socket) -> bool:
        try:
            private_sockets.check_peer(connected)
        except OSError as error:
            logger.warning("a connection was refused: %s", error)
            return False
        return len(self._clients) < self._limits.max_connections

    async def _attend(self, client: _Client) -> None:
        try:
            await client.run()
        except Exception:
            # One host's trouble must not cost the others their worker.
            logger.exception("a connection failed")
        finally:
            self._clients.discard(client)
            if not self._clients:
                self._came = anyio.Event()
                self._left.set()
                self._left = anyio.Event()

    # ------------------------------------------------------------ the end

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
            async for _ in received:
                self._ending.set()

    async def _watch_idleness(self) -> None:
        while True:
            if self._clients:
                await self._left.wait()
            with anyio.move_on_after(self._limits.idle_seconds):
                await self._came.wait()
                continue
            if self._is_idle():
                self._ending.set()
                return

    # ------------------------------------------------------------ what connections share

    @property
    def limits(self) -> DetachedLimits:
        """Return the bounds."""
        return self._limits

    @property
    def pin(self) -> Pin:
        """Return what joins the connections."""
        return self._pin

    @property
    def provider(self) -> Provider:
        """Return what is served."""
        return self._provider

    @property
    def lifetime(self) -> TaskGroup:
        """Return the tasks of the worker, which outlive every connection."""
        return self._tasks

    async def initialize(self, binding: Binding, context: RequestContext) -> str:
        """Bind the worker for its first host; whoever asked meanwhile joins.

        Raises:
            ExecutionError: the provider cannot serve this; the worker ends.
        """
        # A host that leaves now must not cost the next one its worker.
        root = ""
        with anyio.CancelScope(shield=True):
            async with self._initializing:
                root = await self._bind(binding, context)
        return root

    async def _bind(self, binding: Binding, context: RequestContext) -> str:
        if self._root is not None:
            self._pin.repeat(binding)
            return self._root
        if self._ending.is_set():
            raise WorkerFailure("the worker ends.", hint="Open the session again.")
        try:
            self._root = await self._provider.initialize(binding, context)
        except BaseException:
            self._ending.set()
            raise
        return self._root

    async def publish(self, event: ProcessEvent) -> None:
        """Send a process event to every host that is connected."""
        for client in self._clients:
            client.publish(event)


class _Client:
    """One connection: the provider as it sees it, and the events that wait for it."""

    def __init__(self, worker: DetachedWorker, connected: socket.socket) -> None:
        """Prepare; nothing is read yet."""
        self.transport = UnixSocketTransport(connected)
        self._worker = worker
        self._limits = worker.limits
        self._connection = WorkerConnection(
            self.transport, _Shared(worker), worker.pin, worker.limits.connection
        )
        self._events: MemoryObjectSendStream[ProcessEvent]
        self._events, self._queue = anyio.create_memory_object_stream(
            worker.limits.max_unsent_events
        )

    async def run(self) -> None:
        """Serve it to its end."""
        with self._events, self._queue:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_events)
                tasks.start_soon(self._expect_initialization)
                await self._connection.run()
                tasks.cancel_scope.cancel()

    def publish(self, event: ProcessEvent) -> None:
        """Queue an event; a host that does not read loses it and is told so by the numbering."""
        try:
            self._events.send_nowait(event)
        except anyio.WouldBlock:
            self._connection.lose_event()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return

    async def _send_events(self) -> None:
        async for event in self._queue:
            await self._connection.publish(event)

    async def _expect_initialization(self) -> None:
        await anyio.sleep(self._limits.initialize_seconds)
        if not self._connection.is_ready:
            logger.warning("a connection was closed: it did not show the token in time")
            self.transport.close_receiving()


class _Shared:
    """The worker's provider as one connection sees it, whose end it survives."""

    def __init__(self, worker: DetachedWorker) -> None:
        """Serve what the provider serves."""
        self._worker = worker
        self.capabilities = worker.provider.capabilities
        self.methods: Mapping[str, Handler] = {
            name: self._lifted(handler) for name, handler in worker.provider.methods.items()
        }

    async def initialize(self, binding: Binding, context: RequestContext) -> str:
        """Bind the worker, or join those that did."""
        return await self._worker.initialize(binding, _Context(self._worker, context))

    async def close(self) -> None:
        """Do nothing: the provider goes with the worker."""

    def _lifted(self, handler: Handler) -> Handler:
        worker = self._worker

        async def handle(data: Any, context: RequestContext) -> Any:
            return await handler(data, _Context(worker, context))

        return handle


class _Context:
    """A live request, whose tasks and events belong to the worker and not to its connection."""

    __slots__ = ("_worker", "invoke_tool", "lose_event", "request_id", "scope")

    def __init__(self, worker: DetachedWorker, context: RequestContext) -> None:
        self._worker = worker
        self.request_id = context.request_id
        self.scope = context.scope
        self.lose_event = context.lose_event
        self.invoke_tool: Callable[[ToolCall], Any] = context.invoke_tool

    @property
    def lifetime(self) -> TaskGroup:
        return self._worker.lifetime

    async def emit_process(self, event: ProcessEvent) -> None:
        await self._worker.publish(event)
