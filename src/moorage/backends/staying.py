"""Finds the local worker that stays for a session, and has it started when there is none."""

from __future__ import annotations

import socket

import anyio

from moorage.backends.grants import check_grants
from moorage.backends.locking import alone
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
        busy = f"has been starting the worker of session {stay.session}"
        lock = stay.folder / _START_LOCK
        async with alone(lock, limits.start_lock_seconds, busy, retry_seconds=limits.retry_seconds):
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
