"""``list_files``: entries, pages, what is not named and what cannot be listed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.tools.list_files import ListFiles, ListingLimits


def names(data: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in data["entries"]]


async def test_entries_have_name_path_kind_and_size_in_the_order_of_their_names(desk) -> None:
    desk.write("src/b.py", "12345")
    desk.write("src/a/c.py")
    desk.write("src/.hidden", "x")
    data = await desk.data("list_files", path="src")
    assert data["entries"] == [
        {"name": ".hidden", "path": "src/.hidden", "is_dir": False, "size": 1},
        {"name": "a", "path": "src/a", "is_dir": True, "size": 0},
        {"name": "b.py", "path": "src/b.py", "is_dir": False, "size": 5},
    ]
    assert (data["total"], data["returned_count"], data["has_more"]) == (3, 3, False)
    assert data["page"]["next"] is None


async def test_the_view_is_one_line_for_each_entry(desk) -> None:
    desk.write("a.py", "12345")
    desk.write("src/b.py")
    desk.link("link", "a.py")
    result = await desk.call("list_files")
    assert result.text == "a.py  5 bytes\nlink  symlink\nsrc/"


async def test_an_empty_folder_says_so(desk) -> None:
    assert (await desk.call("list_files")).text == "(empty folder)"


async def test_ignored_entries_are_listed(desk) -> None:
    desk.write(".gitignore", "*.log\n")
    desk.write("x.log")
    desk.write("node_modules/x")
    assert names(await desk.data("list_files")) == [".gitignore", "node_modules", "x.log"]


async def test_protected_entries_are_counted_and_not_named(desk) -> None:
    for name in (".env", "id_rsa", ".git/config", "a.txt"):
        desk.write(name)
    result = await desk.call("list_files")
    data = result.structured_content
    assert (names(data), data["protected_count"], data["total"]) == (["a.txt"], 3, 1)
    assert ".env" not in result.text
    assert "3 protected entries are not named" in result.text


async def test_a_single_protected_entry_is_counted_in_the_singular(desk) -> None:
    desk.write(".env")
    assert (await desk.call("list_files")).text == "[1 protected entry is not named]"


async def test_unconfined_names_them(desk) -> None:
    desk.write(".env")
    data = await desk.data("list_files", mode=PermissionMode.UNCONFINED)
    assert (names(data), data["protected_count"]) == ([".env"], 0)


async def test_pages_follow_each_other_without_gap(desk) -> None:
    desk.use(ListFiles(ListingLimits(page_entries=3)))
    for number in range(8):
        desk.write(f"f{number}")
    seen, offset, token = [], 0, None
    while True:
        data = await desk.data("list_files", offset=offset, expected_revision=token)
        seen += names(data)
        token, page = data["page"]["snapshot_token"], data["page"]
        assert (page["offset"], page["returned"]) == (offset, len(data["entries"]))
        if not data["has_more"]:
            break
        offset = page["next"]
    assert seen == [f"f{number}" for number in range(8)]


async def test_a_page_holds_a_thousand_entries(desk) -> None:
    for number in range(1001):
        desk.write(f"f{number:04}")
    data = await desk.data("list_files")
    assert (data["returned_count"], data["total"], data["page"]["next"]) == (1000, 1001, 1000)


async def test_the_view_says_how_to_go_on_from_what_it_shows(desk) -> None:
    for number in range(1001):
        desk.write(f"a-name-that-takes-some-room-{number:04}")
    result = await desk.call("list_files")
    assert len(result.text.encode()) <= 8192
    *shown, footer = result.text.split("\n")
    token = result.structured_content["page"]["snapshot_token"]
    assert footer == (
        f"[entries 1-{len(shown)} of 1001; go on with offset={len(shown)}, "
        f'expected_revision="{token}"]'
    )
    following = await desk.data("list_files", offset=len(shown), expected_revision=token)
    assert following["entries"][0]["name"] == f"a-name-that-takes-some-room-{len(shown):04}"


async def test_a_page_after_a_new_entry_asks_to_start_again(desk) -> None:
    desk.use(ListFiles(ListingLimits(page_entries=1)))
    desk.write("a")
    desk.write("b")
    token = (await desk.data("list_files"))["page"]["snapshot_token"]
    desk.write("c")
    result = await desk.call("list_files", offset=1, expected_revision=token)
    assert result.is_error
    assert result.structured_content["error_kind"] == "stale_snapshot"
    assert "offset 0" in result.text


async def test_a_token_of_another_folder_does_not_fit(desk) -> None:
    for folder in ("one", "two"):
        desk.write(f"{folder}/a")
    token = (await desk.data("list_files", path="one"))["page"]["snapshot_token"]
    result = await desk.call("list_files", path="two", offset=1, expected_revision=token)
    assert result.structured_content["error_kind"] == "stale_snapshot"


@pytest.mark.parametrize("arguments", [{"offset": 1}, {"offset": -1}])
async def test_an_offset_needs_a_token_and_a_sign(desk, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments, match="offset"):
        await desk.call("list_files", **arguments)


async def test_a_page_behind_the_end_is_empty(desk) -> None:
    desk.write("a")
    token = (await desk.data("list_files"))["page"]["snapshot_token"]
    data = await desk.data("list_files", offset=5, expected_revision=token)
    assert (data["entries"], data["has_more"]) == ([], False)


async def test_a_folder_larger_than_the_memory_allowed_is_one_clear_error(desk) -> None:
    desk.use(ListFiles(ListingLimits(page_entries=50, max_kept_bytes=2000)))
    for number in range(60):
        desk.write(f"f{number}")
    result = await desk.call("list_files")
    assert result.structured_content["error_kind"] == "page_too_deep"


@pytest.mark.parametrize(
    ("path", "kind"), [("missing", "not_found"), ("file", "not_a_folder"), ("fifo", "not_a_folder")]
)
async def test_what_is_no_folder_is_an_ordinary_error(desk, path: str, kind: str) -> None:
    desk.write("file")
    os.mkfifo(desk.path / "fifo")
    result = await desk.call("list_files", path=path)
    assert result.is_error
    assert result.structured_content["error_kind"] == kind


async def test_a_symlink_out_of_the_workspace_is_refused_and_one_inside_is_followed(desk) -> None:
    desk.link("out", desk.outside)
    desk.write("real/file")
    desk.link("in", "real")
    with pytest.raises(Refused) as caught:
        await desk.call("list_files", path="out")
    assert caught.value.reason == "boundary_denied"
    assert names(await desk.data("list_files", path="in")) == ["file"]


async def test_a_name_that_is_no_utf_8_is_shown_with_replacement_characters(desk) -> None:
    (desk.path / os.fsdecode(b"caf\xe9")).touch()
    assert names(await desk.data("list_files")) == ["caf\ufffd"]
