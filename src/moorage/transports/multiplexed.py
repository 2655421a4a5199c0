"""Two outputs of one program in a single stream, each piece with a header, as Docker sends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moorage.transports.unix_socket import UnixSocketTransport

HEADER_BYTES = 8
"""One byte says which output, three say nothing, four are the length, most significant first."""

ERRORS = 2
_TAIL_BYTES = 8192


class Demultiplexer:
    """Takes the stream apart again, whatever pieces it comes in."""

    def __init__(self) -> None:
        """Begin at the start of a stream."""
        self.complaints = bytearray()
        self._header = b""
        self._output = 0
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        """Return what of these bytes is standard output; the end of the rest is ``complaints``."""
        parts: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                at = self._begin(data, at)
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if self._output == ERRORS:
                self.complaints += piece
                del self.complaints[:-_TAIL_BYTES]
            else:
                parts.append(piece)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _begin(self, data: bytes, at: int) -> int:
        """Take what there is of a header; return where it ends."""
        taken = data[at : at + HEADER_BYTES - len(self._header)]
        self._header += taken
        if len(self._header) == HEADER_BYTES:
            self._output = self._header[0]
            self._left = int.from_bytes(self._header[4:], "big")
            self._header = b""
        return at + len(taken)


class MultiplexedTransport:
    """A program whose outputs come back in one stream; its standard output is the bytes."""

    def __init__(
        self, stream: UnixSocketTransport, first: bytes, diagnose: Callable[[], Awaitable[str]]
    ) -> None:
        """Take the stream over, of which ``first`` came already.

        ``diagnose`` says how the program ended.
        """
        self._stream = stream
        self._first = first
        self._parts = Demultiplexer()
        self._diagnose = diagnose
        self.send = stream.send
        self.close_sending = stream.close_sending
        self.aclose = stream.aclose
        self.watch = stream.watch

    @property
    def is_torn(self) -> bool:
        """Return whether a send stopped in the middle."""
        return self._stream.is_torn

    async def receive(self) -> bytes:
        """Return the next bytes of its standard output; ``b""`` at the end."""
        data, self._first = self._first, b""
        while data or (data := await self._stream.receive()):
            if output := self._parts.feed(data):
                return output
            data = b""
        return b""

    async def diagnose(self) -> str:
        """Return how the program ended, and the last of its complaints."""
        told = await self._diagnose()
        complaint = self._parts.complaints.decode("utf-8", "replace").strip()
        return f"{told}; its last words: {complaint}" if complaint else told
