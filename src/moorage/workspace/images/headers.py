"""What an image file is, from its first bytes and its headers; nothing is decoded."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from moorage.workspace.images.picture import ImageInfo, ImageLimits, UnusableImage


def media_type_of(head: bytes) -> str:
    """Return the media type that the first 12 bytes tell, or an empty text."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def inspect_image(data: bytes) -> ImageInfo:
    """Return what the headers say.

    Raises:
        UnusableImage: the data is broken or cut.
    """
    media_type = media_type_of(data)
    readers = {
        "image/png": _read_png,
        "image/jpeg": _read_jpeg,
        "image/gif": _read_gif,
        "image/webp": _read_webp,
    }
    try:
        width, height, is_animated = readers[media_type](data)
    except (KeyError, IndexError, ValueError, struct.error):
        raise UnusableImage("broken_image", "its headers are broken or cut") from None
    if width <= 0 or height <= 0:
        raise UnusableImage("broken_image", "its headers give it no size")
    return ImageInfo(media_type=media_type, width=width, height=height, is_animated=is_animated)


def check_image(data: bytes, limits: ImageLimits) -> ImageInfo:
    """Return what the headers say of an image that may be passed on, itself or as a copy.

    Raises:
        UnusableImage: it is broken, animated or too large.
    """
    if len(data) > limits.source_bytes:
        raise UnusableImage("image_too_large", f"it has more than {limits.source_bytes} bytes")
    info = inspect_image(data)
    if info.is_animated:
        raise UnusableImage("animated_image", "it is animated")
    if info.width * info.height > limits.pixels:
        raise UnusableImage(
            "image_too_large",
            f"it has {info.width} x {info.height} pixels, more than {limits.pixels}",
        )
    return info


def _read_png(data: bytes) -> tuple[int, int, bool]:
    if data[12:16] != b"IHDR":
        raise ValueError(data[12:16])
    width, height = struct.unpack_from(">II", data, 16)
    return width, height, False


def _read_jpeg(data: bytes) -> tuple[int, int, bool]:
    offset = 2
    while True:
        if data[offset] != 0xFF:
            raise ValueError(offset)
        marker = data[offset + 1]
        if marker == 0xFF:  # a fill byte
            offset += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return width, height, False
        (length,) = struct.unpack_from(">H", data, offset + 2)
        offset += 2 + length


def _read_gif(data: bytes) -> tuple[int, int, bool]:
    width, height = struct.unpack_from("<HH", data, 6)
    frames = 0
    for _ in _gif_frames(data):
        frames += 1
        if frames > 1:
            break
    return width, height, frames > 1


def _gif_frames(data: bytes) -> Iterator[int]:
    """Yield the offset of each image in a GIF."""
    offset = 13 + _gif_colours(data[10])
    while offset < len(data) and data[offset] != 0x3B:
        if data[offset] == 0x2C:
            yield offset
            offset += 11 + _gif_colours(data[offset + 9])
        elif data[offset] == 0x21:
            offset += 2
        else:
            raise ValueError(offset)
        while data[offset]:
            offset += 1 + data[offset]
        offset += 1


def _gif_colours(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _read_webp(data: bytes) -> tuple[int, int, bool]:
    kind = data[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return width, height, bool(data[20] & 0x02)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, False
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF, False
    raise ValueError(kind)
