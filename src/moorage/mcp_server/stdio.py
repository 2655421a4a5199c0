"""MCP over this process's standard streams: one client, one session.

The SDK's own stdio transport reads in a thread that nothing can interrupt, so a server told to stop
would wait for the client's next line. This one reads and writes the descriptors without blocking.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from moorage.errors import ConfigError, RemoteProtocolViolation
from moorage.mcp_server.opening import announce, log_to_stderr, place_of, plan_of, session_opener
from moorage.mcp_server.options import Options
from moorage.mcp_server.server import build_server
from moorage.mcp_server.sessions import Sessions
from moorage.protocol.framing import FrameReader
from moorage.transports.stdio import FdTransport
from moorage.transports.transport import Transport

logger = logging.getLogger(__name__)

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


async def run_stdio(options: Options) -> None:
    """Serve the client at standard input and output until it leaves or the process is told to stop.

    Raises:
        ConfigError: the options or the configuration are impossible; nothing was started.
    """
    log_to_stderr()
    check_standard_streams()
    place = place_of(plan_of(options))
    server = build_server(options, session_opener(options), place=place)
    if os.isatty(0):
        announce(
            "Waiting for MCP messages, a line each. An MCP client should start this; ^C ends it."
        )
    with claimed_standard_streams() as transport:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_at_signal, tasks.cancel_scope)
            await serve_stream(server, transport)
            tasks.cancel_scope.cancel()


def check_standard_streams() -> None:
    """Return when standard input and output are open.

    Raises:
        ConfigError: one is closed; its number may stand for anything by now.
    """
    if sys.stdin is None or sys.stdout is None:
        raise ConfigError(
            "standard input or output is closed, and MCP needs both.",
            hint="Start the server from an MCP client, or serve HTTP with --http.",
        )


async def serve_stream(server: Server[Sessions], transport: Transport) -> None:
    """Serve one client over a byte stream, a message a line, until the stream ends."""
    incoming, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_messages, transport, incoming, outgoing.clone())
            tasks.start_soon(_write_messages, transport, to_client, tasks.cancel_scope)
            await server.run(from_client, outgoing, server.create_initialization_options())
    finally:
        await transport.aclose()


async def _read_messages(transport: Transport, incoming: Incoming, outgoing: Outgoing) -> None:
    reader = FrameReader()
    async with incoming, outgoing:
        try:
            while data := await transport.receive():
                for line in reader.feed(data):
                    await _pass_on(line, incoming, outgoing)
            for line in reader.finish():
                await _pass_on(line, incoming, outgoing)
        except RemoteProtocolViolation as error:
            logger.error("%s The server ends.", error)  # noqa: TRY400 - the client's fault, not ours
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.info("the client went away")


async def _pass_on(line: bytes, incoming: Incoming, outgoing: Outgoing) -> None:
    if not line.strip():
        return
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        logger.warning("the client sent a line that is no JSON-RPC message")
        await outgoing.send(SessionMessage(_malformed(error)))
    else:
        await incoming.send(SessionMessage(message))


def _malformed(error: ValidationError) -> mcp_types.JSONRPCError:
    """Return the answer to a line that is no message; it has no id that could be answered."""
    is_json = all(problem["type"] != "json_invalid" for problem in error.errors())
    code = mcp_types.INVALID_REQUEST if is_json else mcp_types.PARSE_ERROR
    sentence = "Each line must be one JSON-RPC 2.0 message."
    return mcp_types.JSONRPCError(
        jsonrpc="2.0", id=None, error=mcp_types.ErrorData(code=code, message=sentence)
    )


async def _write_messages(
    transport: Transport,
    to_client: MemoryObjectReceiveStream[SessionMessage],
    serving: anyio.CancelScope,
) -> None:
    async with to_client:
        async for outgoing in to_client:
            text = outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await transport.send(text.encode() + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                logger.info("the client no longer reads; the server ends")
                serving.cancel()


async def _cancel_at_signal(serving: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for received in signals:
            logger.info("stopping at %s", signal.Signals(received).name)
            serving.cancel()


@contextmanager
def claimed_standard_streams() -> Iterator[FdTransport]:
    """Take standard input and output for the protocol alone, and give them back at the end.

    Meanwhile anything else in this process reads nothing, and prints to standard error.
    """
    kept = [_duplicate(number) for number in (0, 1)]
    transport = FdTransport(_duplicate(0), _duplicate(1))
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        yield transport
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _duplicate(number: int) -> int:
    """Return a duplicate that no child inherits and that is none of the standard streams."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
