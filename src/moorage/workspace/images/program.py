"""A smaller copy of an image as a program: the image on its input, the copy on its output.

A decoder is large, and reads what anybody may have made. So it runs in a process of its own,
confined; ``copying`` starts it. Nobody else imports Pillow.
"""

from __future__ import annotations

import io
import os
import resource
import sys

import msgspec

from moorage.workspace.images.headers import media_type_of
from moorage.workspace.images.picture import MIB, Trouble, UnusableImage

EXPLAINED = 3
"""The exit code of a program whose last complaint is an ``Explanation``."""

_MOST_CHARACTERS = 300


class CopyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy may be, and how much memory the making of it may take."""

    passed_bytes: int
    sides: tuple[int, ...]
    memory_bytes: int


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no copy."""

    kind: Trouble
    sentence: str


def main() -> None:
    """Print a smaller copy of the image on the standard input, as the argument says."""
    request = msgspec.json.decode(sys.argv[1], type=CopyRequest)
    resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, request.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        copy = _bounded_copy(request)
    except UnusableImage as error:
        explanation = Explanation(kind=error.kind, sentence=error.sentence[:_MOST_CHARACTERS])
        os.write(2, b"\n" + msgspec.json.encode(explanation))
        os._exit(EXPLAINED)
    with open(1, "wb", closefd=False) as output:
        output.write(copy)
    os._exit(0)  # nothing is left to be tidied up


def _bounded_copy(request: CopyRequest) -> bytes:
    try:
        return smaller_copy(sys.stdin.buffer.read(), request)
    except MemoryError:
        most = request.memory_bytes // MIB
        raise UnusableImage(
            "image_not_copied", f"making a smaller copy takes more than {most} MiB of memory"
        ) from None


def smaller_copy(data: bytes, request: CopyRequest) -> bytes:
    """Return a copy, in JPEG or, when it can be seen through, in PNG.

    Raises:
        UnusableImage: it cannot be decoded, no copy is small enough, or Pillow is missing.
        MemoryError: the limit of memory is reached.
    """
    try:
        # Here alone: whoever starts this program imports this module, but no decoder.
        from PIL import Image, ImageOps  # noqa: PLC0415
    except ModuleNotFoundError:
        raise UnusableImage(
            "image_needs_pillow",
            f"it has {len(data)} bytes, at most {request.passed_bytes} can be shown, and Pillow, "
            'which would make a smaller copy, is not installed (pip install "moorage[images]")',
        ) from None
    # Only the decoder of the kind that was looked at; Pillow has dozens more, some of them old.
    kind = media_type_of(data).removeprefix("image/").upper()
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=(kind,))
        ImageOps.exif_transpose(image, in_place=True)
        has_alpha = image.has_transparency_data
        mode = "RGBA" if has_alpha else "RGB"
        # At full size it is held as few times as can be.
        image = image if image.mode == mode else image.convert(mode)
        for side in request.sides:
            image.thumbnail((side, side))
            target = io.BytesIO()
            if has_alpha:
                image.save(target, "PNG")
            else:
                image.save(target, "JPEG", quality=85)
            if target.tell() <= request.passed_bytes:
                return target.getvalue()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UnusableImage("broken_image", f"it cannot be decoded ({error})") from error
    raise UnusableImage("image_too_large", "no copy of it is small enough")
