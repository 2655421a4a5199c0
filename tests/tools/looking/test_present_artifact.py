"""``present_artifact``: an offer of an immutable copy, or why there is none."""

from __future__ import annotations

import json
import os

import pytest

from moorage.errors import Refused
from moorage.policy.permission import PermissionMode
from moorage.protocol.exports import ExportReadRequest
from moorage.worker import exports as exports_module
from moorage.worker.exports import ExportLimits, Exports


async def read(desk, token: str) -> bytes:
    return (await desk.exports.read(ExportReadRequest(token=token, offset=0))).data


@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_the_result_is_one_text_part_with_token_name_and_size(desk, mode) -> None:
    desk.write("out/report.txt", "the report")
    result = await desk.call("present_artifact", path="out/report.txt", mode=mode)
    (part,) = result.content
    offer = json.loads(part.text)
    assert offer == {
        "execution_export": offer["execution_export"],
        "name": "report.txt",
        "size": 10,
    }
    desk.write("out/report.txt", "something else")
    assert await read(desk, offer["execution_export"]) == b"the report"


async def test_an_empty_file_can_be_published(desk) -> None:
    desk.write("empty")
    offer = json.loads((await desk.call("present_artifact", path="empty")).text)
    assert (offer["size"], await read(desk, offer["execution_export"])) == (0, b"")


async def test_a_file_above_the_limit_is_refused(desk) -> None:
    desk.exports = Exports(desk.own, limits=ExportLimits(max_bytes=3))
    desk.write("a", "1234")
    with pytest.raises(Refused) as caught:
        await desk.call("present_artifact", path="a")
    assert caught.value.reason == "artifact_too_large"


async def test_a_protected_file_is_not_published_in_any_mode(desk) -> None:
    desk.write(".env", "SECRET=1")
    for mode in PermissionMode:
        with pytest.raises(Refused) as caught:
            await desk.call("present_artifact", path=".env", mode=mode)
        assert caught.value.reason == "protected_path"


async def test_a_path_outside_is_refused_also_through_a_symlink(desk) -> None:
    (desk.outside / "x").write_text("x")
    desk.link("link", desk.outside / "x")
    for path in ("../outside/x", "link", str(desk.outside / "x")):
        with pytest.raises(Refused) as caught:
            await desk.call("present_artifact", path=path)
        assert caught.value.reason == "boundary_denied"


async def test_what_is_no_regular_file_is_an_ordinary_error(desk) -> None:
    os.mkfifo(desk.path / "fifo")
    desk.write("folder/x")
    for path, kind in (
        ("fifo", "not_a_regular_file"),
        ("folder", "is_a_folder"),
        ("missing", "not_found"),
    ):
        result = await desk.call("present_artifact", path=path)
        assert result.is_error
        assert result.structured_content["error_kind"] == kind


async def test_a_file_that_changes_meanwhile_is_not_published(desk, monkeypatch) -> None:
    source = desk.write("a", "0123456789")
    real_write = os.write

    def write(fd: int, data: memoryview) -> int:
        source.write_text("changed")
        return real_write(fd, data)

    monkeypatch.setattr(exports_module.os, "write", write)
    result = await desk.call("present_artifact", path="a")
    assert result.is_error
    assert result.structured_content["error_kind"] == "not_published"
    assert "changed while it was copied" in result.text
