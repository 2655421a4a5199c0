"""Private sockets as files: listening, connecting, and who is on the other side.

The paths of such sockets are short by nature (108 bytes); here they are named relative to an open
folder, so that the folder may lie as deep as it likes. No event loop is imported: a program that
only passes bytes on starts sooner without.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

BACKLOG = 64
_CREDENTIALS = struct.Struct("3i")


def listen(path: str | os.PathLike[str]) -> socket.socket:
    """Return a socket that listens at ``path`` and that only this user may connect to.

    What stands there is replaced; it is for the caller to know that nobody listens on it.

    Raises:
        OSError: it cannot be made there.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        with suppress(FileNotFoundError):
            os.unlink(path)
        with _short(path) as address:
            listening.bind(address)
            os.chmod(path, 0o600)
            listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def connect(path: str | os.PathLike[str]) -> socket.socket:
    """Return a socket that is connected to who listens at ``path``; never waits.

    Raises:
        FileNotFoundError, ConnectionRefusedError: nobody listens there.
        BlockingIOError: so many want to connect that there is no room just now.
        PermissionError: who listens is another user.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        with _short(path) as address:
            connected.connect(address)
        check_peer(connected)
    except BaseException:
        connected.close()
        raise
    return connected


def check_peer(connected: socket.socket, own_uid: Callable[[], int] = os.geteuid) -> None:
    """Return when the other side runs as this user.

    Raises:
        PermissionError: it runs as another one.
    """
    data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(data)
    if uid != own_uid():
        raise PermissionError(f"the other side of the socket runs as user {uid}")


@contextmanager
def _short(path: str | os.PathLike[str]) -> Iterator[str]:
    """Lend a short name for a path, by way of its opened folder."""
    folder, name = os.path.split(os.path.abspath(path))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
