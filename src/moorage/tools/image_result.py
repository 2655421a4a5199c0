"""Turn an image file into a result that holds the image itself."""

from __future__ import annotations

import binascii
import os
from typing import TYPE_CHECKING

import msgspec
from anyio import to_thread

from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.tools.results import failure
from moorage.workspace.files import content_hash, read_whole
from moorage.workspace.images.copying import smaller_copy
from moorage.workspace.images.headers import check_image
from moorage.workspace.images.picture import ImageLimits, Picture, UnusableImage

if TYPE_CHECKING:
    from moorage.tools.catalogue import ToolContext


async def image_result(fd: int, path: str, limits: ImageLimits, context: ToolContext) -> ToolResult:
    """Read and check an image; one that is too large is shown as a smaller copy.

    Raises:
        ChangedMeanwhile: the file changed while it was read.
        OSError: the disk fails.
    """
    size = os.fstat(fd).st_size
    try:
        source = await to_thread.run_sync(_read, fd, path, limits)
        picture = source
        if len(source.data) > limits.passed_bytes:
            picture = await smaller_copy(source.data, limits, context.supervisor, context.plan)
    except UnusableImage as error:
        return failure(
            error.kind,
            f"{path} cannot be shown: {error.sentence}. "
            "Hand it to the user as it is with present_artifact.",
            path=path,
            size_bytes=size,
        )
    return await to_thread.run_sync(_result, path, source.data, picture)


def _read(fd: int, path: str, limits: ImageLimits) -> Picture:
    # A file above the bound is read only as far as shows that it is.
    data = read_whole(fd, limits.source_bytes, path)
    return Picture(data=data, info=check_image(data, limits))


def _result(path: str, data: bytes, picture: Picture) -> ToolResult:
    info = picture.info
    structured = {
        "action": "read_image",
        "path": path,
        "media_type": info.media_type,
        "width": info.width,
        "height": info.height,
        "source_bytes": len(data),
        "resized": picture.is_resized,
        "content_sha256": content_hash(data),
    }
    return ToolResult(
        content=(
            ContentPart(type="text", text=msgspec.json.encode(structured).decode()),
            ContentPart(
                type="image",
                data=binascii.b2a_base64(picture.data, newline=False).decode(),
                mime_type=info.media_type,
            ),
        ),
        structured_content=structured,
    )
