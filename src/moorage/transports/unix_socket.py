"""A private UNIX socket as a transport."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import anyio

from moorage.errors import ShutdownIncomplete
from moorage.transports.descriptors import FdReader, FdWriter

_NOTHING_TO_READ = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.BusyResourceError)


class UnixSocketTransport:
    """One end of a connected socket, which it owns.

    Closing it tells the other side, and waits as long as the grace for the other side to close,
    which says that everything asked over this connection has ended.
    """

    def __init__(
        self, connected: socket.socket, *, grace_seconds: float = 0.0, about: str = ""
    ) -> None:
        """Take the socket over; ``about`` says what is known about the other side."""
        connected.setblocking(False)
        self._socket = connected
        self._reader = FdReader(os.dup(connected.fileno()))
        self._writer = FdWriter(os.dup(connected.fileno()))
        self._grace_seconds = grace_seconds
        self._about = about
        self._has_ended = False
        self.send = self._writer.send

    @property
    def is_torn(self) -> bool:
        """Return whether a send stopped in the middle."""
        return self._writer.is_torn

    async def receive(self) -> bytes:
        """Return the next bytes; ``b""`` at the end."""
        data = await self._reader.receive()
        self._has_ended = not data
        return data

    async def close_sending(self) -> None:
        """Let the other side see the end of our bytes."""
        self._shut(socket.SHUT_WR)

    def close_receiving(self) -> None:
        """Read the end of the bytes from now on, as if the other side had closed."""
        self._shut(socket.SHUT_RD)

    async def aclose(self) -> None:
        """Close both directions.

        Raises:
            ShutdownIncomplete: the other side did not close in time.
        """
        is_late = False
        try:
            with anyio.CancelScope(shield=True):
                await self.close_sending()
                is_late = not await self._has_closed()
        finally:
            self._writer.close()
            self._reader.close()
            self._socket.close()
        if is_late:
            raise ShutdownIncomplete(
                f"the worker did not finish what was asked within {self._grace_seconds:g} s.",
                hint=f"It goes on by itself. {self._about}".rstrip(),
            )

    async def watch(self) -> None:
        """Return: nothing accompanies a socket."""

    async def diagnose(self) -> str:
        """Return what is known about the other side."""
        return self._about

    async def _has_closed(self) -> bool:
        """Return whether the other side closed within the grace; what it still says is dropped."""
        if self._grace_seconds <= 0:
            return True
        with anyio.move_on_after(self._grace_seconds) as waiting, suppress(*_NOTHING_TO_READ):
            while not self._has_ended:
                await self.receive()
        return not waiting.cancelled_caught

    def _shut(self, direction: int) -> None:
        with suppress(OSError):
            self._socket.shutdown(direction)
