"""One environment of one session: its identity, and the connection that is opened when needed."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from moorage.backends.backend import Backend, Placement
from moorage.backends.kept_token import has_token, kept_token
from moorage.backends.occupied import leave, occupy
from moorage.backends.profile import Profile
from moorage.confine.private_folders import make_private, replace_private
from moorage.connection.host_end import HostConnection
from moorage.errors import (
    BackendUnavailable,
    ConfigError,
    ConnectionLost,
    InvalidArguments,
    OutcomeUnknown,
    ProtocolMismatch,
    Refused,
    ShutdownIncomplete,
)
from moorage.protocol.binding import PROTOCOL_VERSION, Binding
from moorage.protocol.processes import CleanupReply, ProcessEvent
from moorage.protocol.secret import Secret

T = TypeVar("T")

Listener = Callable[[ProcessEvent | None], None]

INITIALIZE_SECONDS = 20.0
"""For the first answer of a worker that was there already; it may hang."""

REMOTE_INITIALIZE_SECONDS = 60.0
"""The same where the way there, and perhaps the worker, are only just being started."""

ADAPTER_INITIALIZE_SECONDS = 600.0
"""The same of an adapter, which may have to order a machine first."""

CLEANUP_SECONDS = 35.0
"""For ending what runs, softly and then by force."""

_WORLD = (
    "backend",
    "command",
    "image",
    "host",
    "port",
    "user",
    "workspace",
    "host_workspace",
    "mount_read_only",
    "network",
    "cpus",
    "memory_mb",
    "shared",
    "persistent",
)


def identity_of(store: str, session: str, profile: Profile) -> str:
    """Return the identity of the environment: only what defines the world enters it."""
    world = {field: getattr(profile, field) for field in _WORLD}
    owner = "shared" if profile.shared else session
    described = [store, owner, sorted(profile.forward_env), world]
    return f"moorage-{hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:32]}"


def forwarded(profile: Profile, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the values of the variables that the profile forwards.

    Raises:
        ConfigError: one of them is not set; nothing has been provisioned.
    """
    missing = [name for name in profile.forward_env if name not in variables]
    if missing:
        raise ConfigError(
            f"the profile forwards {', '.join(missing)}, which is not set here.",
            path="forward_env",
            hint="Set it, or take it out of the profile.",
        )
    return {name: variables[name] for name in profile.forward_env}


class Environment:
    """Opens the connection when it is first needed and again after it was lost.

    A call that was in flight when the connection broke is never sent again.
    """

    def __init__(self, backend: Backend, placement: Placement, tasks: TaskGroup) -> None:
        """Keep what is needed to open; nothing is started yet."""
        self._backend = backend
        self._placement = placement
        self._keeps_worker = backend.keeps_worker(placement)
        self._tasks = tasks
        self._token: Secret | None = None
        self._variables = forwarded(placement.profile)
        self._lock = anyio.Lock()
        self._connection: HostConnection | None = None
        self._occupation: int | None = None
        self._is_closed = False
        self._listener: Listener = lambda _: None

    def listen(self, listener: Listener) -> None:
        """Have ``listener`` told of every process event, and with ``None`` that some were missed.

        It is called from the reader of the connection and must not block.
        """
        self._listener = listener

    @property
    def placement(self) -> Placement:
        """Return what the backend is asked for."""
        return self._placement

    @property
    def root(self) -> str:
        """Return the absolute path of the workspace inside."""
        return self._backend.root(self._placement)

    @property
    def is_closed(self) -> bool:
        """Return whether it was closed for good."""
        return self._is_closed

    @property
    def is_provisioned(self) -> bool:
        """Return whether there may be a worker already: one that was opened here, or that stays."""
        if self._connection is not None or self._placement.stays_in is not None:
            return True
        return self._keeps_token and has_token(self._placement.token_folder)

    @property
    def _keeps_token(self) -> bool:
        """Return whether the next host is to show the same token."""
        # An adapter may lead to a worker that it left standing, which knows the first token only.
        return self._keeps_worker or self._placement.profile.backend == "command"

    @property
    def outlives_host(self) -> bool:
        """Return whether what runs here goes on when this host lets go of it."""
        if self._placement.stays_in is not None:
            return True
        return self._keeps_worker and self._placement.is_retained

    def check_open(self) -> None:
        """Return while calls can still be made.

        Raises:
            ConnectionLost: this environment was closed.
        """
        if self._is_closed:
            raise ConnectionLost("the session is closed.", hint="Open it again by its id.")

    async def connection(self) -> HostConnection:
        """Return a working connection, opening one when there is none.

        Raises:
            ConnectionLost: this environment was closed.
            ProvisionError: no environment could be had.
        """
        current = self._connection
        if current is not None and current.failure is None:
            return current
        async with self._lock:
            self.check_open()
            if self._connection is not None and self._connection.failure is None:
                return self._connection
            await self._drop()
            self._connection = await self._open()
            return self._connection

    async def replace(self, placement: Placement) -> None:
        """End the worker; the next call starts one for ``placement``."""
        async with self._lock:
            await self._drop()
            if self._keeps_worker:
                await self._backend.end_worker(self._placement)
            self._placement = placement
            self._keeps_worker = self._backend.keeps_worker(placement)

    async def aclose(self) -> None:
        """Close for good: end the worker, unless it stays, and let go of the environment.

        Raises:
            ShutdownIncomplete: the grace ran out; the environment is left for inspection.
        """
        async with self._lock:
            self._is_closed = True
            self._listener(None)
            was_open = self._connection is not None
            try:
                await self._end_processes()
                await self._drop()
                if was_open:
                    await self._backend.release(self._placement)
            finally:
                self._leave()

    async def _occupy(self) -> None:
        """Have everybody see that this environment is used."""
        if self._occupation is None and self._placement.profile.backend != "local":
            self._occupation = await occupy(self._placement)

    def _leave(self) -> None:
        occupation, self._occupation = self._occupation, None
        if occupation is not None:
            leave(occupation)

    async def _end_processes(self) -> None:
        """End what a session without a name leaves in a worker that goes on without it.

        Raises:
            ShutdownIncomplete: something could not be ended.
        """
        connection = self._connection
        if connection is None or connection.failure is not None:
            return
        if self._keeps_worker and not self._placement.stays:
            with suppress(OutcomeUnknown, ConnectionLost):
                await connection.request(
                    "process/cleanup", None, CleanupReply, deadline_seconds=CLEANUP_SECONDS
                )

    async def _open(self) -> HostConnection:
        await self._occupy()
        if not self._keeps_worker:
            return await self._connect()
        try:
            return await self._connect()
        except ConnectionLost:
            # It ended, idle or told to, just as we came; nothing was asked of it yet.
            return await self._connect()

    async def _connect(self) -> HostConnection:
        transport = await self._backend.open_transport(self._placement)
        connection = HostConnection(
            transport, self._known_token(), on_process_event=self._on_process_event
        )
        try:
            await self._tasks.start(self._run, connection)
            await self._initialize(connection)
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(*self._expected_of_a_failed_opening()):
                await connection.aclose()
            raise
        return connection

    async def _run(self, connection: HostConnection, *, task_status: TaskStatus[None]) -> None:
        await connection.run(task_status=task_status)
        self._listener(None)

    def _on_process_event(self, event: ProcessEvent, is_gap: bool) -> None:
        if is_gap:
            self._listener(None)
        self._listener(event)

    async def _initialize(self, connection: HostConnection) -> None:
        stays, session = self._keeps_worker, self._placement.session
        try:
            with anyio.fail_after(self._initialize_seconds()):
                reply = await connection.initialize(self._binding())
                self._check_root(reply.root)
                self._note_provisioned()
        except TimeoutError as error:
            hint = f"`moorage session stop {session}` ends it, by force if it must."
            raise BackendUnavailable(
                f"the worker of session {session} does not answer.",
                hint=hint if stays else "Look at what the profile's command waits for.",
            ) from error
        except (InvalidArguments, Refused) as error:
            if not stays:
                raise
            raise ConfigError(
                f"the worker of session {session} serves something else: {error.message}",
                hint=f"`moorage session restart {session}` ends it, with everything that it runs, "
                "and starts another.",
            ) from error

    def _check_root(self, root: str) -> None:
        """Return when an adapter serves the folder that the profile names.

        Raises:
            ProtocolMismatch: it serves another one.
        """
        asked = self._backend.root(self._placement)
        if self._placement.profile.backend == "command" and root != asked:
            raise ProtocolMismatch(
                f"the adapter serves {root!r}, and its profile names the workspace {asked!r}.",
                hint="Name the folder that it serves as the profile's workspace.",
            )

    def _initialize_seconds(self) -> float | None:
        if self._placement.stays_in is not None:
            return INITIALIZE_SECONDS
        if self._keeps_worker:
            return REMOTE_INITIALIZE_SECONDS
        is_adapter = self._placement.profile.backend == "command"
        return ADAPTER_INITIALIZE_SECONDS if is_adapter else None

    def _expected_of_a_failed_opening(self) -> tuple[type[Exception], ...]:
        # Why a worker that stays could not be used says more than that it did not say goodbye.
        return (ShutdownIncomplete,) if self._keeps_worker else ()

    def _note_provisioned(self) -> None:
        """Remember that the environment was there, so that its loss is never taken for a start."""
        marker = self._placement.provisioned
        if self._placement.profile.backend != "local" and not marker.exists():
            make_private(marker.parent)
            replace_private(marker, b"1\n")

    def _known_token(self) -> Secret:
        """Return the token: that of the worker that stays, or one of this environment's own."""
        if self._keeps_token:
            make_private(self._placement.token_folder)
            return kept_token(self._placement.token_folder)
        if self._token is None:
            self._token = Secret(secrets.token_hex(32))
        return self._token

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _binding(self) -> Binding:
        profile = self._placement.profile
        return Binding(
            version=PROTOCOL_VERSION,
            root=self._backend.root(self._placement),
            session=self._placement.session,
            identity=self._placement.identity,
            environment=self._variables,
            require_existing_workspace=self._must_exist(),
            remove_workspace_on_exit=profile.backend == "ssh" and not self._placement.is_retained,
        )

    def _must_exist(self) -> bool:
        """Return whether the worker may not make the workspace itself, now or ever."""
        profile = self._placement.profile
        is_kept = profile.persistent and profile.backend in {"ssh", "singularity"}
        return profile.backend == "local" or is_kept
