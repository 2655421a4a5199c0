"""Frames to messages and back: strict in types and required keys, deaf to unknown keys.

The data of a message stays encoded until its method is known, and is encoded exactly once. Every
frame is measured before it is handed out for writing.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from moorage.errors import LocalProtocolViolation, RemoteProtocolViolation
from moorage.protocol.framing import MAX_FRAME_BYTES
from moorage.protocol.secret import Secret

T = TypeVar("T")

NULL = msgspec.Raw(b"null")

# What hostile JSON can make the decoder raise: bad syntax or types, and nesting without end.
_UNDECODABLE = (msgspec.DecodeError, RecursionError)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A frame from host to worker."""

    id: str
    method: str
    token: str = ""
    data: msgspec.Raw = NULL

    def __repr__(self) -> str:
        """Show what identifies the frame, never its token or data."""
        return f"Request(id={self.id!r}, method={self.method!r})"


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A frame from worker to host: a reply, a nested tool call (``tool``) or an event."""

    id: str = ""
    method: str = ""
    parent_id: str = ""
    data: msgspec.Raw = NULL
    error: str = ""
    sequence: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The inner envelope of a ``callback``; its id is that of the outer one."""

    data: msgspec.Raw = NULL
    error: str = ""


_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode_data(value: object) -> bytes:
    """Return the encoded form of the data of a message.

    Raises:
        LocalProtocolViolation: the value has no JSON form.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LocalProtocolViolation(f"the message cannot be encoded: {error}.") from error


def decode(data: bytes | msgspec.Raw, expected: type[T], what: str) -> T:
    """Return ``data`` as ``expected``.

    Raises:
        RemoteProtocolViolation: it is not that; the text starts with ``what`` and names the field.
    """
    decoder = _decoders.get(expected)
    if decoder is None:
        decoder = _decoders[expected] = msgspec.json.Decoder(expected)
    try:
        value: T = decoder.decode(data)
    except _UNDECODABLE as error:
        raise RemoteProtocolViolation(f"{what}: {error}.") from error
    return value


class Encoder:
    """Builds the frames of one side, none larger than the bound."""

    def __init__(self, token: Secret | None = None, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Keep the token that goes into every request."""
        opening = b'{"token":' + _encode(token.reveal()) + b',"id":' if token else b'{"id":'
        self._opening = opening
        self._max_frame_bytes = max_frame_bytes

    def request(self, request_id: str, method: str, data: bytes = b"") -> bytes:
        """Return a request; without ``data`` the key is left out.

        Raises:
            LocalProtocolViolation: the frame would be too large; nothing may be written.
        """
        parts = [self._opening, _encode(request_id), b',"method":', _encode(method)]
        if data:
            parts += (b',"data":', data)
        return self._frame(parts, method)

    def reply(self, request_id: str, data: bytes) -> bytes:
        """Return a successful reply.

        Raises:
            LocalProtocolViolation: the frame would be too large; nothing may be written.
        """
        return self._frame([b'{"id":', _encode(request_id), b',"data":', data], "the reply")

    def failure(self, request_id: str, text: str) -> bytes:
        """Return a failed reply; ``text`` is a bounded, non-empty sentence."""
        return self._frame([b'{"id":', _encode(request_id), b',"error":', _encode(text)], "error")

    def tool(self, callback_id: str, parent_id: str, data: bytes) -> bytes:
        """Return a nested tool call.

        Raises:
            LocalProtocolViolation: the frame would be too large; nothing may be written.
        """
        opening = [b'{"id":', _encode(callback_id), b',"parent_id":', _encode(parent_id)]
        return self._frame([*opening, b',"method":"tool","data":', data], "the tool call")

    def process(self, data: bytes, sequence: int) -> bytes:
        """Return a process event; its number stands outside the data, whose keys are fixed.

        Raises:
            LocalProtocolViolation: the frame would be too large; nothing may be written.
        """
        number = b',"sequence":%d' % sequence
        return self._frame(
            [b'{"id":"","method":"process","data":', data, number], "the process event"
        )

    def _frame(self, parts: list[bytes], what: str) -> bytes:
        parts.append(b"}\n")
        frame = b"".join(parts)
        if len(frame) > self._max_frame_bytes:
            raise LocalProtocolViolation(
                f"{what} makes a frame of {len(frame)} bytes; the most is {self._max_frame_bytes}.",
                hint="Send it in pieces: write_bytes does so with a file, and input with what a "
                "command reads.",
            )
        return frame
