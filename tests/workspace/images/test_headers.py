from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from moorage.workspace.images.headers import check_image, inspect_image, media_type_of
from moorage.workspace.images.picture import ImageInfo, ImageLimits, UnusableImage


def encoded(kind: str, size: tuple[int, int] = (7, 5), mode: str = "RGB", **options) -> bytes:
    target = io.BytesIO()
    Image.new(mode, size).save(target, kind, **options)
    return target.getvalue()


def animation(kind: str) -> bytes:
    target = io.BytesIO()
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue", "green")]
    frames[0].save(target, kind, save_all=True, append_images=frames[1:])
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (encoded("PNG"), "image/png"),
        (encoded("JPEG"), "image/jpeg"),
        (encoded("JPEG", progressive=True), "image/jpeg"),
        (encoded("GIF", mode="P"), "image/gif"),
        (encoded("WEBP"), "image/webp"),
        (encoded("WEBP", lossless=True), "image/webp"),
        (encoded("WEBP", mode="RGBA", exif=b"Exif\0\0" + b"\0" * 8), "image/webp"),
    ],
)
def test_headers_tell_kind_and_size(data: bytes, media_type: str) -> None:
    assert media_type_of(data[:12]) == media_type
    assert inspect_image(data) == ImageInfo(media_type=media_type, width=7, height=5)


@pytest.mark.parametrize(
    "head", [b"", b"\x89PNG", b"RIFF\0\0\0\0WAVE", b"GIF", b"<svg", b"BM", b"\xff\xd8"]
)
def test_anything_else_is_no_image(head: bytes) -> None:
    assert media_type_of(head) == ""


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_moving_images_are_refused(kind: str) -> None:
    assert inspect_image(animation(kind)).is_animated
    with pytest.raises(UnusableImage) as caught:
        check_image(animation(kind), ImageLimits())
    assert caught.value.kind == "animated_image"


def test_a_gif_with_extensions_around_one_frame_stands_still() -> None:
    data = encoded("GIF", mode="P", comment=b"made by hand", duration=5)
    assert not inspect_image(data).is_animated


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rJUNK",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0" * 8,
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xe0\x00\x04ab\x00\xc0",
        b"\xff\xd8\xff\xff\xff\xe0",
        b"GIF89a\x01",
        b"GIF89a\x01\0\x01\0\0\0\0\x77",
        b"RIFF\0\0\0\0WEBPJUNK",
        b"RIFF\0\0\0\0WEBPVP8X",
        b"not an image",
    ],
)
def test_broken_headers_are_told(data: bytes) -> None:
    with pytest.raises(UnusableImage) as caught:
        inspect_image(data)
    assert caught.value.kind == "broken_image"


def test_fill_bytes_before_a_marker_are_skipped() -> None:
    data = encoded("JPEG")
    filled = data[:2] + b"\xff\xff" + data[2:]
    assert inspect_image(filled).width == 7


def test_too_many_pixels_or_bytes_are_refused_before_decoding() -> None:
    data = encoded("PNG", (100, 100))
    for limits in (ImageLimits(pixels=9_999), ImageLimits(source_bytes=len(data) - 1)):
        with pytest.raises(UnusableImage) as caught:
            check_image(data, limits)
        assert caught.value.kind == "image_too_large"


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 "]),
    st.binary(max_size=60),
)
def test_no_bytes_break_the_headers(head: bytes, rest: bytes) -> None:
    try:
        info = inspect_image(head + rest)
    except UnusableImage:
        return
    assert info.width > 0
    assert info.height > 0


def test_the_size_of_a_lossy_webp_has_fourteen_bits() -> None:
    frame = b"\0" * 6 + struct.pack("<HH", 0xC000 | 7, 0x4000 | 5)
    info = inspect_image(b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 4 + frame)
    assert (info.width, info.height) == (7, 5)
