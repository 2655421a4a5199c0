"""The words for images: bounds, kind and size, what is passed on, and why one cannot be."""

from __future__ import annotations

from typing import Literal

import msgspec

MIB = 1024 * 1024

Trouble = Literal[
    "broken_image", "animated_image", "image_too_large", "image_needs_pillow", "image_not_copied"
]


class ImageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest image that is looked at, the largest that is passed on, and what a copy may cost.

    ``sides`` are the longest sides that are tried, one after another, until a copy is small enough.
    """

    source_bytes: int = 20 * MIB
    pixels: int = 40_000_000
    passed_bytes: int = 2 * MIB
    sides: tuple[int, ...] = (2048, 1568, 1024, 768, 512, 256)
    copy_seconds: float = 30.0
    # An image of as many pixels as are taken is held several times over, 4 bytes for each.
    copy_memory_bytes: int = 1024 * MIB


class ImageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The kind and size of an image."""

    media_type: str
    width: int
    height: int
    is_animated: bool = False


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """An image ready to be passed on."""

    data: bytes
    info: ImageInfo
    is_resized: bool = False


class UnusableImage(Exception):
    """An image cannot be shown; the sentence says why, the kind is a stable word."""

    def __init__(self, kind: Trouble, sentence: str) -> None:
        """Keep both."""
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
