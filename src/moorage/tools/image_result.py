"""Turn an image file into a result that holds the image itself."""

from __future__ import annotations

import binascii
import os
from typing import TYPE_CHECKING

import msgspec

from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.tools.results import failure
from moorage.workspace.files import content_hash, read_whole
from moorage.workspace.images import ImageLimits, UnusableImage, prepare_image

if TYPE_CHECKING:
    from moorage.workspace.images import Picture


def image_result(fd: int, path: str, limits: ImageLimits) -> ToolResult:
    """Read, check and if need be shrink an image; runs in a thread.

    Raises:
        ChangedMeanwhile: the file changed while it was read.
        OSError: the disk fails.
    """
    size = os.fstat(fd).st_size
    try:
        # A file above the bound is read only as far as shows that it is.
        data = read_whole(fd, limits.source_bytes, path)
        picture = prepare_image(data, limits)
    except UnusableImage as error:
        return failure(
            error.kind,
            f"{path} cannot be shown: {error.sentence}. "
            "Hand it to the user as it is with present_artifact.",
            path=path,
            size_bytes=size,
        )
    return _result(path, data, picture)


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
