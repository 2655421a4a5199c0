"""Files and command input of any size over ``moorage.bytes.v1``, one bounded frame at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from moorage.connection.host_end import HostConnection
from moorage.errors import InvalidArguments, ProtocolMismatch, RemoteProtocolViolation
from moorage.policy.permission import PermissionMode
from moorage.protocol.binding import BYTES
from moorage.protocol.files import (
    FileReadReply,
    FileReadRequest,
    FileWriteReply,
    FileWriteRequest,
    InputWriteReply,
    InputWriteRequest,
)

FRAME_BYTES = 1024 * 1024


async def read_pieces(
    connection: HostConnection, path: str, actor: str, mode: PermissionMode
) -> AsyncIterator[bytes]:
    """Yield the bytes of one file in pieces of at most a frame.

    Raises:
        InvalidArguments: the path is not valid Unicode; nothing was sent.
        ProtocolMismatch: the worker does not offer the capability.
    """
    _check_path(path)
    _require(connection)
    offset, is_whole = 0, False
    while not is_whole:
        request = FileReadRequest(
            path=path,
            actor=actor,
            permission_mode=mode.value,
            offset=offset,
            max_bytes=FRAME_BYTES,
        )
        reply = await connection.request("file/read", request, FileReadReply)
        offset, is_whole = offset + len(reply.data), reply.eof
        if not (reply.data or reply.eof) or len(reply.data) > FRAME_BYTES:
            raise RemoteProtocolViolation(f"reading {path} stalled or overran at {offset} bytes.")
        yield reply.data


async def write_bytes(
    connection: HostConnection, path: str, data: bytes, actor: str, mode: PermissionMode
) -> None:
    """Replace the bytes of one file; the file changes with the last frame, as a whole.

    Raises:
        InvalidArguments: the path is not valid Unicode; nothing was sent.
        ProtocolMismatch: the worker does not offer the capability.
    """
    _check_path(path)
    _require(connection)
    upload = ""
    for offset, part, is_last in _frames(data):
        request = FileWriteRequest(
            path=path,
            actor=actor,
            permission_mode=mode.value,
            upload=upload,
            offset=offset,
            data=part,
            eof=is_last,
        )
        reply = await connection.request("file/write", request, FileWriteReply)
        upload = _continued(reply, offset + len(part))


async def upload_input(connection: HostConnection, data: bytes) -> str:
    """Upload the standard input of a command and return the token that names it.

    Raises:
        ProtocolMismatch: the worker does not offer the capability.
    """
    _require(connection)
    upload = ""
    for offset, part, is_last in _frames(data):
        request = InputWriteRequest(upload=upload, offset=offset, data=part, eof=is_last)
        reply = await connection.request("input/write", request, InputWriteReply)
        upload = _continued(reply, offset + len(part))
    return upload


def _frames(data: bytes) -> list[tuple[int, bytes, bool]]:
    starts = range(0, max(len(data), 1), FRAME_BYTES)
    return [
        (start, data[start : start + FRAME_BYTES], start + FRAME_BYTES >= len(data))
        for start in starts
    ]


def _continued(reply: FileWriteReply | InputWriteReply, sent: int) -> str:
    """Return the token of an upload of which ``sent`` bytes have arrived."""
    if not reply.upload or reply.written != sent:
        raise RemoteProtocolViolation(
            f"the worker says that {reply.written} bytes of an upload arrived; {sent} were sent."
        )
    return reply.upload


def _check_path(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidArguments(
            f"the path {path!r} is not valid Unicode; nothing was sent.",
            hint="Reach the file with a command, or by a link with a plain name.",
        ) from error


def _require(connection: HostConnection) -> None:
    if BYTES not in connection.capabilities:
        raise ProtocolMismatch(
            f"the worker does not offer {BYTES}, so bytes cannot travel.",
            hint="Use a worker of the same version as the host.",
        )
