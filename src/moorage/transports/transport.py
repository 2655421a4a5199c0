"""What a transport is: bytes to and from exactly one worker, nothing about their meaning."""

from __future__ import annotations

from typing import Protocol

MAX_RECEIVE_BYTES = 1024 * 1024
"""The most that one ``receive`` returns."""


class Transport(Protocol):
    """A private stream of bytes in both directions.

    Failures of the medium are ``anyio.BrokenResourceError``; use after closing is
    ``anyio.ClosedResourceError``. One task receives; sends never overlap.
    """

    @property
    def is_torn(self) -> bool:
        """Return whether a send stopped in the middle, so that nothing can follow it."""

    async def receive(self) -> bytes:
        """Return the next bytes, at most ``MAX_RECEIVE_BYTES``; ``b""`` at the end."""

    async def send(self, data: bytes) -> None:
        """Send everything; cancelled in the middle, the transport is torn."""

    async def close_sending(self) -> None:
        """Let the other side see the end of our bytes."""

    async def aclose(self) -> None:
        """Close both directions and end what belongs to the transport.

        Raises:
            ShutdownIncomplete: the other side had to be ended by force.
        """

    async def watch(self) -> None:
        """Look after what accompanies the bytes until cancelled; the owner runs it beside them."""

    async def diagnose(self) -> str:
        """Return, after a bounded wait, what is known about why the other side went away."""
