"""MCP over streamable HTTP: several clients, one Moorage session for each MCP session."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from moorage.app.application import SessionPlan
from moorage.errors import ConfigError
from moorage.mcp_server.bearer import read_or_make_token
from moorage.mcp_server.guard import PATH, Door, Guard, check_reach, host_values, origin_values
from moorage.mcp_server.opening import (
    announce,
    check_token_place,
    default_token_file,
    log_to_stderr,
    place_of,
    plan_of,
    session_opener,
)
from moorage.mcp_server.options import McpLimits, Options
from moorage.mcp_server.patience import impatient
from moorage.mcp_server.server import build_server
from moorage.mcp_server.sessions import Opener
from moorage.protocol.secret import Secret

logger = logging.getLogger(__name__)


async def run_http(options: Options) -> None:
    """Serve over HTTP until the process is told to stop.

    The address and where the token lies are printed to standard error.

    Raises:
        ConfigError: the options contradict each other, or the address cannot be had.
    """
    log_to_stderr()
    if options.session_name or options.session_id:
        raise ConfigError(
            "over HTTP every client gets a session of its own, so none can be named.",
            hint="Leave the session out, or serve over standard streams.",
        )
    plan = plan_of(options)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with serve_http(options, session_opener(options), plan) as url:
            announce(f"Moorage serves MCP at {url}")
            async for received in signals:
                logger.info("stopping at %s", signal.Signals(received).name)
                return


@asynccontextmanager
async def serve_http(options: Options, opener: Opener, plan: SessionPlan) -> AsyncIterator[str]:
    """Serve over HTTP while the block runs, and give it the server's address.

    Raises:
        ConfigError: the options contradict each other, or the address cannot be had.
    """
    check_reach(options.host, allow_remote=options.allow_remote)
    token = _token(options, plan)
    limits = options.limits
    manager = StreamableHTTPSessionManager(
        build_server(
            options,
            opener,
            place=place_of(plan),
            shared_idle_seconds=limits.session_idle_seconds,
        ),
        session_idle_timeout=limits.session_idle_seconds,
        max_sessions=limits.max_sessions,
        max_request_body_size=limits.max_request_bytes,
    )
    with listening(options.host, options.port) as listener:
        port = listener.getsockname()[1]
        hosts = host_values(options.host, port, options.allowed_hosts)
        door = Door(hosts=hosts, origins=origin_values(hosts, options.allowed_origins), token=token)
        guard = Guard(manager.handle_request, door)
        async with _answering(guard, listener, limits), manager.run():
            try:
                yield f"http://{options.host}:{port}{PATH}"
            finally:
                guard.close()


def _token(options: Options, plan: SessionPlan) -> Secret:
    file = Path(options.token_file) if options.token_file else default_token_file(options)
    check_token_place(file, plan)
    token, is_new = read_or_make_token(file)
    announce(f"The bearer token {'was written to' if is_new else 'is in'} {file}")
    return token


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Hold a listening socket on the first address that ``host`` names.

    Raises:
        ConfigError: there is no such address here, or the port is taken.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"cannot listen on {host}:{port}: a port is a number up to 65535.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error}.") from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error}.", hint=_remedy(error)
            ) from error
        yield listener


def _remedy(error: OSError) -> str:
    match error.errno:
        case errno.EADDRNOTAVAIL:
            return "That is no address of this machine; name one that is, such as 127.0.0.1."
        case errno.EACCES:
            return "Ports below 1024 need a right that you do not have; choose a higher one."
        case _:
            return "Choose another port; 0 takes any that is free."


class _HttpServer(uvicorn.Server):
    """Uvicorn without its signal handlers: whoever runs us decides when to stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def _answering(
    guard: Guard, listener: socket.socket, limits: McpLimits
) -> AsyncIterator[None]:
    """Answer HTTP requests while the block runs, then let open responses end within a grace."""
    server = _HttpServer(
        uvicorn.Config(
            guard,
            http=impatient(limits.request_head_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.http_connections,
            timeout_graceful_shutdown=limits.http_close_grace_seconds,
        )
    )
    async with anyio.create_task_group() as serving:
        serving.start_soon(_serve_to_the_end, server, listener)
        try:
            yield
        finally:
            server.should_exit = True


async def _serve_to_the_end(server: uvicorn.Server, listener: socket.socket) -> None:
    # Shielded: a cancelled uvicorn leaves its connections open; `should_exit` ends it in bounds.
    with anyio.CancelScope(shield=True):
        await server.serve([listener])
