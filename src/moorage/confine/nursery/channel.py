"""A socket between two processes of one worker: whole messages, with descriptors beside them."""

from __future__ import annotations

import array
import errno
import os
import socket
from typing import TYPE_CHECKING

from moorage.confine.nursery import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moorage.confine.nursery.messages import Message

INLINE_BYTES = 32 * 1024
"""Messages above this travel in a memory file: a socket buffer takes about 200 KiB in all."""

_BULKY = b"\xff"
_RECEIVE_BYTES = INLINE_BYTES + 1024
_MOST_DESCRIPTORS = 8
_ANCILLARY_BYTES = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
# ETOOMANYREFS: too many descriptors are in flight; it passes as the other side receives them.
_FULL = frozenset({errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS})


class Channel:
    """One end; it never blocks."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over the connection."""
        connection.setblocking(False)
        self._connection = connection

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Return one end, and the socket of the other to pass on."""
        ours, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC
        )
        return cls(ours), theirs

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        """Return an end from a received or inherited descriptor."""
        return cls(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, descriptor))

    def fileno(self) -> int:
        """Return the descriptor, to wait on."""
        return self._connection.fileno()

    def try_send(self, message: Message, descriptors: Sequence[int] = ()) -> bool:
        """Send the message with copies of the descriptors; ``False`` when it must wait.

        Raises:
            OSError: the other end is gone.
        """
        data = messages.encode(message)
        if len(data) <= INLINE_BYTES:
            return self._try_send(data, descriptors)
        with os.fdopen(os.memfd_create("moorage-message"), "wb", buffering=0) as bulk:
            bulk.write(data)
            return self._try_send(_BULKY, [*descriptors, bulk.fileno()])

    def _try_send(self, data: bytes, descriptors: Sequence[int]) -> bool:
        rights = array.array("i", descriptors)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else []
        try:
            self._connection.sendmsg([data], ancillary, socket.MSG_NOSIGNAL)
        except OSError as error:
            if error.errno in _FULL:
                return False
            raise
        return True

    def receive(self) -> tuple[Message, list[int]] | None:
        """Return the next message and its descriptors, now the caller's; ``None`` at the end.

        Raises:
            BlockingIOError: nothing has come yet.
        """
        try:
            # CLOEXEC on arrival: a descriptor must not slip into a child that is being started.
            data, ancillary, _, _ = self._connection.recvmsg(
                _RECEIVE_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            return None
        if not data:
            return None
        descriptors = array.array("i")
        for _level, _kind, content in ancillary:
            descriptors.frombytes(content)
        received = list(descriptors)
        if data == _BULKY:
            data = _read_whole(received.pop())
        return messages.decode(data), received

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def _read_whole(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb", buffering=0) as bulk:
        bulk.seek(0)
        return bulk.read()
