"""``read_file``: text with numbered lines, a range of it, or an image."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import msgspec

from moorage.errors import InvalidArguments
from moorage.protocol.workspace_tools import WORKSPACE_TOOLS, ReadFileArguments
from moorage.tools.continuation import HIGHEST_LINE, Continuation, decode_continuation
from moorage.tools.file_limits import FileLimits
from moorage.tools.image_result import image_result
from moorage.tools.misfortunes import MISFORTUNES, told
from moorage.tools.missing_file import missing_file
from moorage.tools.results import failure
from moorage.tools.text_result import Reading, text_result
from moorage.workspace.files import content_hash, read_whole, steps
from moorage.workspace.images.headers import media_type_of
from moorage.workspace.images.picture import ImageLimits
from moorage.workspace.opening.location import protected
from moorage.workspace.text.line_range import LineRange, select_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.protocol.tool_calls import ToolResult
    from moorage.tools.catalogue import ToolContext
    from moorage.workspace.opening.location import Location

# A NUL this early means that a file is not text.
_BINARY_PROBE_BYTES = 512


class _Asked(msgspec.Struct, frozen=True):
    """What a call asks for, its continuation taken apart."""

    path: str
    start_line: int
    limit: int | None
    continued: Continuation | None = None
    has_range: bool = False


class ReadFile:
    """Reads one file; bounds what it returns and says how to go on."""

    spec = WORKSPACE_TOOLS["read_file"]

    def __init__(
        self, limits: FileLimits | None = None, image_limits: ImageLimits | None = None
    ) -> None:
        """Keep the bounds."""
        self._limits = limits or FileLimits()
        self._image_limits = image_limits or ImageLimits()

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> ToolResult:
        """Return the text or image, or why it cannot be had.

        Raises:
            Refused: the path leads outside, or the file is protected.
            InvalidArguments: the arguments contradict each other.
        """
        asked = _asked(arguments)
        try:
            fd, location = context.root.open_read(asked.path, context.mode)
        except FileNotFoundError as error:
            return missing_file(error, asked.path, context, self._limits)
        except MISFORTUNES as error:
            return told(error, asked.path)
        try:
            head = os.pread(fd, _BINARY_PROBE_BYTES, 0)
            if media_type_of(head):
                return await self._read_image(fd, location, asked, context)
            if b"\0" in head:
                return _binary(location, os.fstat(fd).st_size)
            return await self._read_text(fd, location, asked, context)
        except MISFORTUNES as error:
            return told(error, location.display)
        finally:
            os.close(fd)

    async def _read_image(
        self, fd: int, location: Location, asked: _Asked, context: ToolContext
    ) -> ToolResult:
        if location.is_protected:  # nothing in an image can be masked
            raise protected(location.display, "shown")
        if asked.has_range:
            raise InvalidArguments(
                f"read_file: {location.display} is an image; it has no lines to choose from.",
                hint="Leave out offset, limit and continuation.",
            )
        return await image_result(fd, location.display, self._image_limits, context)

    async def _read_text(
        self, fd: int, location: Location, asked: _Asked, context: ToolContext
    ) -> ToolResult:
        size = os.fstat(fd).st_size
        is_long = size > self._limits.inline_bytes
        if location.is_protected and is_long:
            return failure(
                "too_large",
                f"{location.display} is protected and too large to be masked; it is not shown.",
                path=location.display,
                size_bytes=size,
            )
        if is_long:
            selection = await anyio.to_thread.run_sync(self._select_long, fd, location, asked)
        else:
            data = read_whole(fd, self._limits.inline_bytes, location.display)
            if location.is_protected:
                selection = self._select_masked(data, asked, context)
            else:
                selection = self._select((data,), asked)
        reading = Reading(
            asked_path=asked.path,
            path=location.display,
            limit=asked.limit,
            continued=asked.continued,
            size=size,
        )
        return text_result(selection, reading, self._limits)

    def _select(self, parts: Iterable[bytes], asked: _Asked) -> LineRange:
        most = self._limits.unlimited_read_bytes
        return select_lines(parts, asked.start_line, asked.limit, most)

    def _select_long(self, fd: int, location: Location, asked: _Asked) -> LineRange:
        parts = steps(fd, location.display, on_step=anyio.from_thread.check_cancelled)
        return self._select(parts, asked)

    def _select_masked(self, data: bytes, asked: _Asked, context: ToolContext) -> LineRange:
        """Mask all of the file before lines are chosen: a key may span many of them."""
        text = context.redactor.text(data.decode("utf-8", "replace"))
        selection = self._select((text.encode(),), asked)
        return msgspec.structs.replace(selection, digest=content_hash(data))


def _asked(arguments: ReadFileArguments) -> _Asked:
    for name in ("offset", "limit"):
        value = getattr(arguments, name)
        if value is not None and not 0 <= value <= HIGHEST_LINE:
            raise InvalidArguments(
                f"read_file: argument {name} is {value}; it counts from 1 to {HIGHEST_LINE}."
            )
    offset, limit = arguments.offset or None, arguments.limit or None
    if not arguments.continuation:
        if not arguments.path:
            raise InvalidArguments("read_file needs a path, or the continuation of a result.")
        has_range = offset is not None or limit is not None
        return _Asked(arguments.path, offset or 1, limit, has_range=has_range)
    token = decode_continuation(arguments.continuation)
    if offset is not None:
        raise InvalidArguments(
            "read_file: offset and continuation both say where to begin; give one of them."
        )
    if arguments.path not in ("", token.path):
        raise InvalidArguments(
            f"read_file: the continuation belongs to {token.path}, not to {arguments.path}."
        )
    return _Asked(token.path, token.start_line, limit or token.limit, token, has_range=True)


def _binary(location: Location, size: int) -> ToolResult:
    return failure(
        "binary_file",
        f"{location.display} is not text ({size} bytes, with NUL among the first). Look at it with "
        "a command such as file or xxd, or hand it to the user with present_artifact.",
        path=location.display,
        size_bytes=size,
    )


TOOL = ReadFile()
