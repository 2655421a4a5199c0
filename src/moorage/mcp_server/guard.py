"""Who may speak to the HTTP server at all, decided before anything of MCP is read.

A web page that a browser shows can send requests to this machine, and by DNS rebinding it can do so
under a name of its own; the ``Host`` and ``Origin`` checks stop both. The token stops all others.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.errors import ConfigError
from moorage.mcp_server.bearer import is_right_token
from moorage.protocol.secret import Secret

PATH = "/mcp"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Refusal(NamedTuple):
    """An HTTP answer that turns a request away."""

    status: int
    sentence: str


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """What a request must bring with it."""

    hosts: frozenset[str]
    origins: frozenset[str]
    token: Secret

    def refusal(self, path: str, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Return why a request is turned away, or ``None`` when it may come in."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host not in self.hosts:
            return Refusal(421, f"The Host header {host!r} is not a name of this server.")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in self.origins:
            return Refusal(403, "Requests from this Origin are not allowed.")
        if path != PATH:
            return Refusal(404, f"The MCP endpoint is {PATH}.")
        if not is_right_token(headers.get(b"authorization"), self.token):
            return Refusal(
                401,
                "Send the header `Authorization: Bearer TOKEN`; the server said at its start which "
                "file holds the token.",
            )
        return None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_reach(host: str, *, allow_remote: bool) -> None:
    """Return when a server may listen on ``host``.

    Raises:
        ConfigError: other machines could reach it, and nobody has said that they may.
    """
    if not allow_remote and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines.",
            hint="Listen on 127.0.0.1, or pass --allow-remote if that is what you want.",
        )


def host_values(host: str, port: int, more: Iterable[str]) -> frozenset[str]:
    """Return the ``Host`` headers that name a server listening on ``host`` and ``port``."""
    own = f"[{host}]" if ":" in host and not host.startswith("[") else host
    named = [f"{name}:{port}" for name in (own, *LOOPBACK_NAMES)]
    for name in more:
        has_port = name.rpartition("]")[2].count(":") == 1
        named += [name] if has_port else [name, f"{name}:{port}"]
    return frozenset(name.lower() for name in named)


def origin_values(hosts: Iterable[str], more: Iterable[str]) -> frozenset[str]:
    """Return the origins that are the server itself, and those that were allowed by name."""
    own = (f"http://{host}" for host in hosts)
    return frozenset([*own, *(origin.lower().rstrip("/") for origin in more)])


class Guard:
    """An ASGI application that lets through what the door allows."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        """Keep the application behind the door."""
        self._app = app
        self._door = door
        self._is_closed = False

    def close(self) -> None:
        """Turn away every request from now on."""
        self._is_closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is turned away; pass on any other."""
        refusal = self._door.refusal(scope["path"], dict(scope["headers"]))
        if self._is_closed:
            refusal = Refusal(503, "The server is stopping.")
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _answer(send, refusal)


async def _answer(send: Send, refusal: Refusal) -> None:
    body = msgspec.json.encode({"error": refusal.sentence})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="moorage"'))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
