"""Two transports joined in memory, with the bounds and failures of a pair of pipes."""

from __future__ import annotations

import anyio
from anyio.lowlevel import checkpoint

from moorage.transports.transport import MAX_RECEIVE_BYTES

DEFAULT_CAPACITY_BYTES = 64 * 1024


class _Stream:
    """A bounded one-way stream of bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        """Start empty, with both ends open."""
        self.is_finished = False
        self.is_abandoned = False
        self._capacity_bytes = capacity_bytes
        self._buffer = bytearray()
        self._changed = anyio.Event()

    def finish(self) -> None:
        """Close the writing end: the reader sees the end after what is buffered."""
        self.is_finished = True
        self._wake()

    def abandon(self) -> None:
        """Close the reading end: writing fails from now on."""
        self.is_abandoned = True
        self._buffer.clear()
        self._wake()

    async def read(self) -> bytes:
        """Return what is buffered, waiting for something; ``b""`` at the end."""
        await checkpoint()
        while not self._buffer:
            if self.is_abandoned:
                raise anyio.ClosedResourceError
            if self.is_finished:
                return b""
            await self._changed.wait()
        data = bytes(self._buffer[:MAX_RECEIVE_BYTES])
        del self._buffer[:MAX_RECEIVE_BYTES]
        self._wake()
        return data

    def write(self, data: memoryview) -> int:
        """Take what fits and return how much that was."""
        if self.is_finished:
            raise anyio.ClosedResourceError
        if self.is_abandoned:
            raise anyio.BrokenResourceError
        taken = data[: self._capacity_bytes - len(self._buffer)]
        self._buffer += taken
        if taken:
            self._wake()
        return len(taken)

    async def wait_for_change(self) -> None:
        """Wait until the other end read, wrote or closed."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class MemoryTransport:
    """One side of a pair."""

    def __init__(self, incoming: _Stream, outgoing: _Stream) -> None:
        """Join two streams; use ``memory_pair``."""
        self.is_torn = False
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        """Return the next bytes; ``b""`` at the end."""
        return await self._incoming.read()

    async def send(self, data: bytes) -> None:
        """Hand everything over, waiting while the other side is slow."""
        rest = memoryview(data)
        has_started = False
        while True:
            taken = self._outgoing.write(rest)
            rest = rest[taken:]
            has_started = has_started or taken > 0
            self.is_torn = has_started and len(rest) > 0
            if not rest:
                return
            await self._outgoing.wait_for_change()

    async def close_sending(self) -> None:
        """Let the other side see the end of our bytes."""
        self._outgoing.finish()

    def close_receiving(self) -> None:
        """Read no more: what the other side sends from now on fails there."""
        self._incoming.abandon()

    async def aclose(self) -> None:
        """Close both directions."""
        self._outgoing.finish()
        self._incoming.abandon()

    async def watch(self) -> None:
        """Return: nothing accompanies bytes in memory."""

    async def diagnose(self) -> str:
        """Return nothing: bytes in memory know nothing about the other side."""
        return ""


def memory_pair(
    capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two joined transports: what one sends, the other receives."""
    one, other = _Stream(capacity_bytes), _Stream(capacity_bytes)
    return MemoryTransport(one, other), MemoryTransport(other, one)
