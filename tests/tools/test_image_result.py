from __future__ import annotations

import base64
import struct

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.protocol.workspace_tools import ReadFileArguments
from moorage.tools.read_file import ReadFile
from moorage.workspace.images.picture import ImageLimits

UNCONFINED = PermissionMode.UNCONFINED


def error_kind(result) -> str:
    assert result.is_error
    return result.structured_content["error_kind"]


def png(width: int, height: int, *, padding: int = 0) -> bytes:
    header = struct.pack(">II", width, height)
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + header + b"\x08\x02\0\0\0" + b"\0" * padding


async def test_an_image_comes_back_as_media(desk) -> None:
    (desk.path / "dot.png").write_bytes(png(3, 2))
    result = await desk.call("read_file", path="dot.png")
    assert result.structured_content["action"] == "read_image"
    assert result.structured_content["media_type"] == "image/png"
    assert (result.structured_content["width"], result.structured_content["height"]) == (3, 2)
    assert not result.structured_content["resized"]
    image = result.content[1]
    assert (image.type, image.mime_type) == ("image", "image/png")
    assert base64.b64decode(image.data) == png(3, 2)


async def test_a_range_of_an_image_is_an_argument_error(desk) -> None:
    (desk.path / "dot.png").write_bytes(png(3, 2))
    with pytest.raises(InvalidArguments, match="no lines"):
        await desk.call("read_file", path="dot.png", offset=2)


async def test_an_image_with_too_many_pixels_names_present_artifact(desk) -> None:
    (desk.path / "big.png").write_bytes(png(10_000, 5_000))
    result = await desk.call("read_file", path="big.png")
    assert error_kind(result) == "image_too_large"
    assert "present_artifact" in result.text


async def test_an_image_file_above_the_bound_is_not_decoded(desk) -> None:
    (desk.path / "big.png").write_bytes(png(3, 2, padding=2000))
    tool = ReadFile(image_limits=ImageLimits(source_bytes=1000))
    result = await tool.run(ReadFileArguments(path="big.png"), desk.context())
    assert error_kind(result) == "image_too_large"


async def test_an_image_with_a_protected_name_is_never_shown(desk) -> None:
    (desk.path / "secret.png").write_bytes(png(3, 2))
    with pytest.raises(Refused) as caught:
        await desk.call("read_file", mode=UNCONFINED, path="secret.png")
    assert caught.value.reason == "protected_path"
