"""Tokens that say whether a later page still belongs to the same answer.

A token is a digest of the question and of every item of the answer, whatever the order in which
they come, so nothing has to be kept to compare. It notices change, it does not resist forgery.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from zlib import crc32

_MODULUS = 1 << 96


def digest_of(*parts: bytes) -> int:
    """Return the digest of one item; where one part ends and the next begins counts."""
    digest = 0
    for part in parts:
        digest = digest << 32 ^ crc32(part, len(part))
    return digest


class SnapshotDigest:
    """Grows item by item; the order of the items does not matter, their number does."""

    __slots__ = ("_count", "_question", "_sum")

    def __init__(self, *question: str) -> None:
        """Begin with what was asked, so that another question's token never fits."""
        self._question = "\0".join(question).encode("utf-8", "surrogateescape")
        self._sum = 0
        self._count = 0

    def add(self, item: int, count: int = 1) -> None:
        """Take the digest of one more item, or the sum of the digests of ``count`` items."""
        self._sum = (self._sum + item) % _MODULUS
        self._count += count

    def token(self) -> str:
        """Return the token of what was taken so far."""
        answer = b"%d.%d." % (self._count, self._sum)
        return blake2b(answer + self._question, digest_size=12).hexdigest()


def file_state(status: os.stat_result) -> bytes:
    """Return what differs when a file has changed."""
    return b"%d.%d" % (status.st_mtime_ns, status.st_size)
