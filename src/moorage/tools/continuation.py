"""Tokens that carry on reading where an earlier result ended, if the file is still the same."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.errors import InvalidArguments

_DIGEST_CHARACTERS = 24
HIGHEST_LINE = 10**9
"""More lines than any file has that can be read here."""

# A path of 4,096 characters, each escaped, and the base64 around it.
_LONGEST_TOKEN = 64 * 1024

_Line = Annotated[int, Meta(ge=1, le=HIGHEST_LINE)]


class Continuation(msgspec.Struct, frozen=True, array_like=True):
    """Which file, with which content, and from which line; not a secret and no leave to read."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    digest: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{_DIGEST_CHARACTERS}}}\\Z")]
    start_line: _Line
    limit: _Line | None = None

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
        token = token[:_LONGEST_TOKEN]  # of a longer one nothing is left that can be read
        data = urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        found = msgspec.json.decode(data, type=Continuation)
    except (binascii.Error, ValueError, RecursionError, msgspec.DecodeError):
        found = None
    if found is None or "\0" in found.path:
        raise InvalidArguments(
            "read_file: argument continuation is not a token of an earlier result.",
            hint="Copy it exactly, or use offset and limit.",
        )
    return found
