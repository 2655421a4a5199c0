"""Files and command input of any size over ``moorage.bytes.v1``, one bounded frame at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

from moorage.connection.host_end import HostConnection
from moorage.errors import InvalidArguments, ProtocolMismatch, RemoteProtocolViolation
from moorage.host.in_flight import in_order
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


async def read_whole(
    connection: HostConnection, path: str, actor: str, mode: PermissionMode
) -> bytes:
    """Return the bytes of one file, several pieces of which are on their way at a time.

    Raises:
        InvalidArguments: the path is not valid Unicode; nothing was sent.
        ProtocolMismatch: the worker does not offer the capability.
        RemoteProtocolViolation: the pieces do not make up the file.
    """
    _check_path(path)
    _require(connection)

    async def ask(offset: int) -> FileReadReply:
        request = FileReadRequest(
            path=path,
            actor=actor,
            permission_mode=mode.value,
            offset=offset,
            max_bytes=FRAME_BYTES,
        )
        return await connection.request("file/read", request, FileReadReply)

    first = await ask(0)
    if first.eof:
        return first.data
    parts = [first.data]

    def take(offset: int, reply: FileReadReply) -> None:
        is_last = offset + FRAME_BYTES >= first.size
        expected = first.size - offset if is_last else FRAME_BYTES
        if len(reply.data) != expected or reply.eof != is_last:
            raise RemoteProtocolViolation(f"reading {path} stalled or overran at {offset} bytes.")
        parts.append(reply.data)

    if len(first.data) != FRAME_BYTES:
        raise RemoteProtocolViolation(f"reading {path} stalled or overran at its start.")
    await in_order(range(FRAME_BYTES, first.size, FRAME_BYTES), ask, take)
    return b"".join(parts)


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

    async def ask(frame: Frame) -> FileWriteReply:
        offset, part, is_last = frame
        request = FileWriteRequest(
            path=path,
            actor=actor,
            permission_mode=mode.value,
            upload=upload,
            offset=offset,
            data=part,
            eof=is_last,
        )
        return await connection.request("file/write", request, FileWriteReply)

    first, *rest = _frames(data)
    upload = _continued(await ask(first), len(first[1]))
    await in_order(rest, ask, _check_continued)


async def upload_input(connection: HostConnection, data: bytes) -> str:
    """Upload the standard input of a command and return the token that names it.

    Raises:
        ProtocolMismatch: the worker does not offer the capability.
    """
    _require(connection)
    upload = ""

    async def ask(frame: Frame) -> InputWriteReply:
        offset, part, is_last = frame
        request = InputWriteRequest(upload=upload, offset=offset, data=part, eof=is_last)
        return await connection.request("input/write", request, InputWriteReply)

    first, *rest = _frames(data)
    upload = _continued(await ask(first), len(first[1]))
    await in_order(rest, ask, _check_continued)
    return upload


Frame = tuple[int, bytes, bool]
"""Offset, bytes, and whether they are the last."""


def _frames(data: bytes) -> list[Frame]:
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


def _check_continued(frame: Frame, reply: FileWriteReply | InputWriteReply) -> None:
    _continued(reply, frame[0] + len(frame[1]))


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
