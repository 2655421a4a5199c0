"""Images above the bound, from the call to the smaller copy that a confined child makes."""

from __future__ import annotations

import base64
import io
import os

import pytest
from PIL import Image

from moorage.policy.permission import PermissionMode
from moorage.protocol.workspace_tools import ReadFileArguments
from moorage.tools.read_file import ReadFile
from moorage.workspace.images.headers import inspect_image
from moorage.workspace.images.picture import MIB, ImageLimits

pytestmark = pytest.mark.needs("landlock")


def photo() -> bytes:
    target = io.BytesIO()
    Image.frombytes("RGB", (1000, 800), os.urandom(2_400_000)).save(target, "PNG")
    return target.getvalue()


@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_an_image_above_two_mib_comes_back_smaller(desk, mode: PermissionMode) -> None:
    data = photo()
    assert len(data) > 2 * MIB
    desk.write("photo.png", data)
    result = await desk.call("read_file", mode=mode, path="photo.png")
    assert not result.is_error, result.text
    assert result.structured_content["resized"]
    assert result.structured_content["source_bytes"] == len(data)
    copy = base64.b64decode(result.content[1].data)
    assert len(copy) <= 2 * MIB
    info = inspect_image(copy)
    assert info.media_type == result.content[1].mime_type == "image/jpeg"
    assert info.width == result.structured_content["width"]


async def test_an_image_that_no_child_can_copy_names_present_artifact(desk) -> None:
    desk.write("photo.png", photo())
    tool = ReadFile(image_limits=ImageLimits(passed_bytes=100, sides=(256,)))
    context = desk.context(PermissionMode.STANDARD)
    result = await tool.run(ReadFileArguments(path="photo.png"), context)
    assert result.is_error
    assert result.structured_content["error_kind"] == "image_too_large"
    assert "present_artifact" in result.text
