"""Tokens that carry on reading where an earlier result ended, if the file is still the same."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from moorage.errors import InvalidArguments

_DIGEST_CHARACTERS = 24


class Continuation(msgspec.Struct, frozen=True, array_like=True):
    """Which file, with which content, and from which line; not a secret and no leave to read."""

    path: str
    digest: str
    start_line: int
    limit: int | None = None

    @classmethod
    def of(cls, path: str, content_sha256: str, start_line: int, limit: int | None) -> Continuation:
        """Return a continuation that keeps as much of the hash as tells two contents apart."""
        return cls(path, content_sha256[:_DIGEST_CHARACTERS], start_line, limit)

    def fits(self, content_sha256: str) -> bool:
        """Return whether the file still has the content that it had."""
        return content_sha256.startswith(self.digest)

    def encode(self) -> str:
        """Return the opaque text form."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def decode_continuation(token: str) -> Continuation:
    """Return what a token says.

    Raises:
        InvalidArguments: it is not a token of an earlier result.
    """
    try:
        data = urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        return msgspec.json.decode(data, type=Continuation)
    except (binascii.Error, UnicodeError, ValueError, msgspec.DecodeError):
        raise InvalidArguments(
            "read_file: argument continuation is not a token of an earlier result.",
            hint="Copy it exactly, or use offset and limit.",
        ) from None
