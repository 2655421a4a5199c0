"""Finds the local worker that stays for a session, and has it started when there is none."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from moorage.backends.grants import check_grants
from moorage.backends.starting import start
from moorage.backends.stay import LOG, SOCKET, Stay, StayingLimits
from moorage.confine.private_folders import make_private
from moorage.errors import BackendUnavailable, ConfigError
from moorage.transports import private_sockets
from moorage.transports.unix_socket import UnixSocketTransport

_START_LOCK = "start"


async def reach(stay: Stay, limits: StayingLimits) -> UnixSocketTransport:
    """Return a connection to the worker, which is started when there is none.

    Raises:
        ProvisionError: it could not be started or reached.
        ConfigError: it runs with other grants than the session has now.
        ProtocolMismatch: it belongs to another version of Moorage.
    """
    try:
        make_private(stay.folder)
    except OSError as error:
        raise ConfigError(f"{stay.folder} cannot be used: {error.strerror}.") from error
    connected = await _dial(stay, limits)
    if connected is None:
        async with _start_lock(stay, limits):
            connected = await _dial(stay, limits)
            if connected is None:
                await start(stay, limits)
                connected = await _dial(stay, limits)
    if connected is None:
        raise BackendUnavailable(
            f"the worker of session {stay.session} went away as soon as it was started.",
            hint=stay.see_log(),
        )
    try:
        check_grants(stay)
    except BaseException:
        connected.close()
        raise
    return UnixSocketTransport(
        connected, grace_seconds=stay.grace_seconds, about=f"It logs to {stay.folder / LOG}."
    )


async def _dial(stay: Stay, limits: StayingLimits) -> socket.socket | None:
    """Return a connected socket, or None when nobody listens."""
    with anyio.move_on_after(limits.connect_seconds):
        while True:
            try:
                return private_sockets.connect(stay.folder / SOCKET)
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            except BlockingIOError:
                await anyio.sleep(limits.retry_seconds)
            except OSError as error:
                raise BackendUnavailable(
                    f"the worker of session {stay.session} cannot be reached: {error}."
                ) from error
    raise BackendUnavailable(
        f"the worker of session {stay.session} takes no connections.",
        hint=f"`moorage session stop {stay.session}` ends it.",
    )


@asynccontextmanager
async def _start_lock(stay: Stay, limits: StayingLimits) -> AsyncIterator[None]:
    """Be the only host that starts this worker."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(stay.folder / _START_LOCK, flags, 0o600)
    try:
        is_locked = False
        with anyio.move_on_after(limits.start_lock_seconds):
            while not is_locked:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    is_locked = True
                except BlockingIOError:
                    await anyio.sleep(limits.retry_seconds)
        if not is_locked:
            raise BackendUnavailable(
                f"another program has been starting the worker of session {stay.session} "
                f"for {limits.start_lock_seconds:g} s.",
                hint="Try again when it has ended.",
            )
        yield
    finally:
        os.close(descriptor)
