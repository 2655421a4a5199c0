"""Hands an execution backend's work, or a part of it, to a peer of the author's choice."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from moorage.errors import ConfigError
from moorage.protocol.methods import METHODS, SERVED_METHODS
from moorage.sdk.attaching import AttachedPeerV4, AttachedTransport
from moorage.sdk.backend import ExecutionBackendV4
from moorage.sdk.peer import Peer, PeerLimits
from moorage.transports.stdio import ChildTransport

if TYPE_CHECKING:
    from moorage.transports.transport import Transport

LONGEST_GRACE_MS = 2_147_483_647
DEFAULT_GRACE_MS = 10_000


def delegate_execution_backend_v4(
    *,
    command: Sequence[str] = (),
    transport: AttachedPeerV4 | None = None,
    capabilities: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    shutdown_grace_ms: int | None = None,
    limits: PeerLimits | None = None,
) -> ExecutionBackendV4:
    """Return a backend that hands everything to one peer, for an author to change parts of.

    Change parts of it with ``msgspec.structs.replace(peer, methods={**peer.methods, ...})``, as
    long as everything stays one world: whoever keeps the files elsewhere leaves the peer's
    ``process/*`` out, and the promise ``process.start.v1``.

    The peer is started when the host initializes the backend, never before, never again, and never
    replaced. It has to take the same binding and answer with the same root, version 4 and every
    capability that is asked for.

    Args:
        command: the peer's program and its arguments, started without a shell.
        transport: a peer that is reached already, in place of a command; its ``close`` ends it.
        capabilities: what is promised to the host and demanded of the peer.
        env: all variables of the peer's program; those of this program by default, so trust it.
        shutdown_grace_ms: for the end of the peer's program after the end of its input, 10 000 by
            default; after that it is killed, and the failed end is raised by ``close``.
        limits: how long a cancelled call may take to end, 35 s by default.

    Raises:
        ConfigError: an argument is impossible, or two of them contradict each other.
    """
    grace_ms = _checked_grace(shutdown_grace_ms, transport)
    open_peer = (
        _attached(transport, command, env) if transport else _spawned(command, env, grace_ms)
    )
    peer = Peer(open_peer, frozenset(capabilities), limits or PeerLimits())
    offered = [name for name in SERVED_METHODS if METHODS[name].capability in {"", *capabilities}]
    return ExecutionBackendV4(
        initialize=peer.initialize,
        methods={name: peer.handler(name) for name in sorted(offered)},
        close=peer.close,
        capabilities=tuple(capabilities),
    )


def _checked_grace(milliseconds: int | None, transport: AttachedPeerV4 | None) -> int:
    if milliseconds is None:
        return DEFAULT_GRACE_MS
    if transport is not None:
        raise ConfigError(
            "an attached transport is ended by its own close, which knows no grace.",
            path="shutdown_grace_ms",
            hint="Leave it out, and bound the time in close.",
        )
    is_whole = isinstance(milliseconds, int) and not isinstance(milliseconds, bool)
    if not (is_whole and 1 <= milliseconds <= LONGEST_GRACE_MS):
        raise ConfigError(
            f"{milliseconds!r} is not a whole number from 1 to {LONGEST_GRACE_MS}.",
            path="shutdown_grace_ms",
        )
    return milliseconds


def _attached(
    transport: AttachedPeerV4, command: Sequence[str], env: Mapping[str, str] | None
) -> Callable[[], Awaitable[Transport]]:
    if command or env is not None:
        raise ConfigError(
            "a peer is either started by a command, or attached; not both.",
            path="transport",
            hint="command and env belong to a peer that is started here.",
        )

    async def attach() -> Transport:
        return AttachedTransport(transport)

    return attach


def _spawned(
    command: Sequence[str], env: Mapping[str, str] | None, grace_ms: int
) -> Callable[[], Awaitable[Transport]]:
    words = msgspec.convert(command, tuple[str, ...]) if not isinstance(command, str) else ()
    if not words or not words[0].strip():
        raise ConfigError(
            "a peer needs a command, or an attached transport; none is found or chosen for you.",
            path="command",
            hint="Name the peer's program and its arguments, one by one.",
        )

    async def spawn() -> Transport:
        variables = dict(os.environ if env is None else env)
        return await ChildTransport.start(words, variables=variables, grace_seconds=grace_ms / 1000)

    return spawn
