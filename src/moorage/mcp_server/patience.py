"""How long an HTTP connection may hold its place while nothing of it is being answered.

Uvicorn waits for ever for the head of a request, so a few hundred connections that never finish one
would keep everybody else out.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class ImpatientProtocol(H11Protocol):
    """Closes a connection on which no request begins within ``head_seconds``.

    The time runs from the connection, or from the end of the answer before, and no byte short of a
    whole head makes it longer.
    """

    head_seconds = 10.0
    _deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        """Start the time."""
        super().connection_made(transport)
        self._keep_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time for good."""
        self._stop_time()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what arrived; a whole head stops the time."""
        super().handle_events()
        self._keep_time()

    def on_response_complete(self) -> None:
        """Start the time for the next request."""
        super().on_response_complete()
        self._keep_time()

    def _keep_time(self) -> None:
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop_time()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def impatient(head_seconds: float) -> type[H11Protocol]:
    """Return the protocol with a time of its own."""
    return type("Impatient", (ImpatientProtocol,), {"head_seconds": head_seconds})
