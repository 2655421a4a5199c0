"""Tells the clients of one session that a resource has changed, in the way of their revision.

Clients of the revisions with a handshake subscribe to addresses and are notified on their
connection; later ones listen on a stream of their own, which the SDK's handler feeds from the bus.
"""

from __future__ import annotations

import logging

from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

logger = logging.getLogger(__name__)


class News:
    """Who is to hear what."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._wishes: dict[Connection, tuple[ServerSession, set[str]]] = {}

    def introduce(self, connection: Connection, session: ServerSession) -> set[str]:
        """Note a client, once for its connection, and return the addresses that it subscribed to.

        It is forgotten when its connection ends.
        """
        if connection not in self._wishes:
            self._wishes[connection] = (session, set())
            connection.exit_stack.callback(self._wishes.pop, connection, None)
        return self._wishes[connection][1]

    async def publish(self, event: ServerEvent) -> None:
        """Tell everybody who wants to know."""
        await self._bus.publish(event)
        for session, addresses in tuple(self._wishes.values()):
            match event:
                case ResourceUpdated(uri) if uri in addresses:
                    await session.send_resource_updated(uri)
                case ResourcesListChanged():
                    await session.send_resource_list_changed()
                case _:
                    pass
