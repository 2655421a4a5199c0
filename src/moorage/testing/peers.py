"""Peers written by hand, frame by frame, to play against a live end what a script says."""

from __future__ import annotations

from typing import Any

import msgspec

from moorage.protocol.binding import Binding
from moorage.protocol.secret import Secret
from moorage.testing.playbook import BINDING, TOKEN
from moorage.transports.transport import Transport


class ScriptedPeer:
    """Says whole frames and hears whole frames."""

    def __init__(self, transport: Transport) -> None:
        """Speak over ``transport``."""
        self.transport = transport
        self._buffer = b""

    async def say(self, **fields: object) -> None:
        """Send one frame of these keys."""
        await self.transport.send(msgspec.json.encode(fields) + b"\n")

    async def hear(self) -> dict[str, Any]:
        """Return the next frame.

        Raises:
            EOFError: the other side closed its output.
        """
        while b"\n" not in self._buffer:
            data = await self.transport.receive()
            if not data:
                raise EOFError
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = msgspec.json.decode(line)
        return message


class ScriptedHost(ScriptedPeer):
    """A host without a machine; its requests carry the token."""

    def __init__(self, transport: Transport, token: Secret = TOKEN) -> None:
        """Speak over ``transport`` with ``token``."""
        super().__init__(transport)
        self._token = token

    async def ask(self, request_id: str, method: str, data: object = None) -> None:
        """Send a request; ``data`` may be a message or anything else."""
        fields = {"token": self._token.reveal(), "id": request_id, "method": method}
        await self.say(**fields, data=msgspec.to_builtins(data))

    async def open(self, binding: Binding = BINDING) -> dict[str, Any]:
        """Initialize as request ``0`` and return the reply."""
        await self.ask("0", "initialize", binding)
        return await self.hear()


class ScriptedWorker(ScriptedPeer):
    """A worker without a machine."""

    async def accept(self, capabilities: tuple[str, ...] = ()) -> None:
        """Hear an initialize and agree to it."""
        request = await self.hear()
        binding = request["data"]
        reply = {
            "version": binding["version"],
            "root": binding["root"],
            "capabilities": capabilities,
        }
        await self.say(id=request["id"], data=reply)
