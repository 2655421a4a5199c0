"""Reading and writing bytes of any size in pieces: the capability ``moorage.bytes.v1``.

A file is read at offsets; a write and the standard input of a command are uploads: the first piece
carries no token, the reply names one, and the piece marked ``eof`` completes it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.protocol.tool_calls import Actor, ModeText

MAX_PIECE_BYTES = 1024 * 1024
"""Raw bytes in one frame; base64 makes a third more of it, far below the frame bound."""

Offset = Annotated[int, Meta(ge=0)]
Piece = Annotated[bytes, Meta(max_length=MAX_PIECE_BYTES)]


class FileReadRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Read at most ``max_bytes`` of a workspace file, from ``offset``."""

    path: str
    actor: Actor
    permission_mode: ModeText = ""
    offset: Offset = 0
    max_bytes: Annotated[int, Meta(ge=1, le=MAX_PIECE_BYTES)] = MAX_PIECE_BYTES


class FileReadReply(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file; ``size`` is the size of the whole file when the piece was read."""

    data: bytes
    eof: bool
    size: int


class FileWriteRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of a file to write; the piece with ``eof`` replaces the file, all at once."""

    path: str
    actor: Actor
    data: Piece
    eof: bool
    permission_mode: ModeText = ""
    upload: str = ""
    offset: Offset = 0


class FileWriteReply(msgspec.Struct, frozen=True, kw_only=True):
    """The token of the upload and how many bytes of it have arrived."""

    upload: str
    written: int


class InputWriteRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of the standard input of a command; the token goes to ``ExecuteRequest.input``."""

    data: Piece
    eof: bool
    upload: str = ""
    offset: Offset = 0


class InputWriteReply(msgspec.Struct, frozen=True, kw_only=True):
    """The token of the upload and how many bytes of it have arrived."""

    upload: str
    written: int
