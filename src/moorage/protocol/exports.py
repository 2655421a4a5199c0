"""Reading and closing an immutable snapshot that ``present_artifact`` published."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MAX_EXPORT_BYTES = 256 * 1024 * 1024


class ExportReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Read the snapshot from ``offset``; the worker chooses how much."""

    token: str
    offset: Annotated[int, Meta(ge=0)]


class ExportReadReply(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the snapshot; ``eof`` when it ends with the snapshot."""

    data: bytes
    eof: bool


class ExportCloseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Give the snapshot up."""

    token: str


class ExportClosed(msgspec.Struct, frozen=True, kw_only=True):
    """The empty answer to a close."""
