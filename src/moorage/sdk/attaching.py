"""A way to a peer that somebody else opened and closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream

from moorage.errors import ShutdownIncomplete
from moorage.transports.transport import MAX_RECEIVE_BYTES


class AttachedPeerV4(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of a peer: ``input`` is what it reads, ``output`` what it writes.

    ``close`` lets go of it, physically: of the streams, and of whatever is behind them.
    """

    input: ByteSendStream
    output: ByteReceiveStream
    close: Callable[[], Awaitable[None]]


class AttachedTransport:
    """The transport over such streams."""

    def __init__(self, peer: AttachedPeerV4) -> None:
        """Use the peer's streams from now on."""
        self._peer = peer
        self._is_closed = False
        self.is_torn = False

    async def receive(self) -> bytes:
        """Return what the peer wrote; ``b""`` at the end."""
        try:
            return await self._peer.output.receive(MAX_RECEIVE_BYTES)
        except anyio.EndOfStream:
            return b""

    async def send(self, data: bytes) -> None:
        """Write everything; how much of it went out cannot be known when this is cancelled."""
        self.is_torn = True
        await self._peer.input.send(data)
        self.is_torn = False

    async def close_sending(self) -> None:
        """Let the peer see the end of what it reads."""
        await self._peer.input.aclose()

    async def aclose(self) -> None:
        """Have the owner close it, once.

        Raises:
            ShutdownIncomplete: the owner's close failed.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._peer.close()
        except Exception as error:
            raise ShutdownIncomplete(
                f"closing the attached peer failed: {error}", hint="What is behind it may remain."
            ) from error

    async def watch(self) -> None:
        """Return: the owner looks after the peer."""

    async def diagnose(self) -> str:
        """Return nothing: only the owner knows why a peer went away."""
        return ""
