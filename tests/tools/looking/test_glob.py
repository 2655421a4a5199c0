"""``glob``: patterns, ignored files, pages; alike with ripgrep and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.tools.glob import Glob
from moorage.workspace.search.hits import SearchLimits

FILES = ("a.py", "src/b.py", "src/deep/c.py", "src/deep/c.ts", "docs/x.md", "src/d.test.py")


@pytest.fixture
def tree(searched):
    for name in FILES:
        searched.write(name)
    return searched


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.py", ["a.py", "src/b.py", "src/d.test.py", "src/deep/c.py"]),
        ("*.py", ["a.py"]),
        ("src/*.py", ["src/b.py", "src/d.test.py"]),
        ("src/**/*.{ts,md}", ["src/deep/c.ts"]),
        ("**/[cd]*", ["docs/x.md", "src/d.test.py", "src/deep/c.py", "src/deep/c.ts"][1:]),
        ("./src/deep/c.ts", ["src/deep/c.ts"]),
        ("src/", ["src/b.py", "src/d.test.py", "src/deep/c.py", "src/deep/c.ts"]),
        ("**", sorted(FILES)),
        ("nothing/*", []),
        ("*.none", []),
    ],
)
async def test_patterns_find_whole_paths(tree, pattern: str, expected: list[str]) -> None:
    data = await tree.data("glob", pattern=pattern)
    assert (data["paths"], data["total"]) == (expected, len(expected))


async def test_a_pattern_counts_from_the_folder_that_is_named(tree) -> None:
    assert (await tree.data("glob", pattern="*.py", path="src"))["paths"] == [
        "src/b.py",
        "src/d.test.py",
    ]


async def test_the_view_is_one_path_for_each_line(tree) -> None:
    assert (await tree.call("glob", pattern="src/*.py")).text == "src/b.py\nsrc/d.test.py"


async def test_nothing_found_is_a_success_that_explains_the_star(tree) -> None:
    result = await tree.call("glob", pattern="*.ts")
    assert not result.is_error
    assert result.text == "No file matches.\n[a * does not cross folders; ** does]"


async def test_ignored_and_skipped_files_are_left_out_unless_their_folder_is_named(tree) -> None:
    tree.write(".ignore", "built/\n")
    for name in ("built/x.js", "node_modules/m/x.js", "vendor/x.js", ".git/x.js"):
        tree.write(name)
    assert (await tree.data("glob", pattern="**/*.js"))["paths"] == []
    assert (await tree.data("glob", pattern="built/*.js"))["paths"] == ["built/x.js"]
    assert (await tree.data("glob", pattern="node_modules/**/*.js"))["paths"] == [
        "node_modules/m/x.js"
    ]


async def test_protected_files_are_counted_and_not_named(tree) -> None:
    for name in (".env", "conf/.env.local", "conf/id_rsa"):
        tree.write(name)
    result = await tree.call("glob", pattern="**/.env*")
    assert result.structured_content["protected_count"] == 2
    assert result.structured_content["paths"] == []
    assert "2 protected files are not named" in result.text
    unconfined = await tree.data("glob", pattern="**/.env*", mode=PermissionMode.UNCONFINED)
    assert unconfined["paths"] == [".env", "conf/.env.local"]


async def test_pages_follow_each_other_without_gap(tree) -> None:
    tree.use(Glob(SearchLimits(page_paths=2)))
    seen, offset, token = [], 0, None
    while True:
        data = await tree.data("glob", pattern="**", offset=offset, expected_revision=token)
        seen += data["paths"]
        token = data["page"]["snapshot_token"]
        if not data["has_more"]:
            break
        offset = data["page"]["next"]
    assert seen == sorted(FILES)


async def test_a_page_holds_five_hundred_paths(searched) -> None:
    for number in range(501):
        searched.write(f"d{number % 3}/f{number:03}")
    data = await searched.data("glob", pattern="**")
    assert (data["returned_count"], data["total"], data["page"]["next"]) == (500, 501, 500)


async def test_a_page_after_a_new_file_asks_to_start_again(tree) -> None:
    tree.use(Glob(SearchLimits(page_paths=2)))
    token = (await tree.data("glob", pattern="**"))["page"]["snapshot_token"]
    tree.write("new.py")
    result = await tree.call("glob", pattern="**", offset=2, expected_revision=token)
    assert result.structured_content["error_kind"] == "stale_snapshot"


async def test_a_symlink_is_neither_found_nor_followed_and_a_circle_ends(tree) -> None:
    tree.link("src/circle", "..")
    tree.link("out", tree.outside)
    (tree.outside / "secret.py").touch()
    data = await tree.data("glob", pattern="**/*.py")
    assert data["paths"] == ["a.py", "src/b.py", "src/d.test.py", "src/deep/c.py"]
    with pytest.raises(Refused):
        await tree.call("glob", pattern="out/*")


@pytest.mark.parametrize("pattern", ["", "  ", "a\0b"])
async def test_a_pattern_that_is_no_name_is_an_argument_error(desk, pattern: str) -> None:
    with pytest.raises(InvalidArguments, match="pattern"):
        await desk.call("glob", pattern=pattern)


@pytest.mark.parametrize("pattern", ["a[", "{a", "a}", "[z-a]", "a\\"])
async def test_a_bad_glob_is_an_error_with_the_reason(desk, pattern: str) -> None:
    result = await desk.call("glob", pattern=pattern)
    assert result.structured_content["error_kind"] == "bad_pattern"


@pytest.mark.parametrize(("path", "kind"), [("missing", "not_found"), ("a.py", "not_a_folder")])
async def test_a_start_that_is_no_folder_is_an_ordinary_error(tree, path: str, kind: str) -> None:
    result = await tree.call("glob", pattern="*", path=path)
    assert result.structured_content["error_kind"] == kind


async def test_a_name_that_is_no_utf_8_is_found(searched) -> None:
    (searched.path / os.fsdecode(b"caf\xe9.py")).touch()
    assert (await searched.data("glob", pattern="caf*"))["paths"] == ["caf\ufffd.py"]


async def test_moorages_own_folders_are_left_out_of_a_search_around_them(searched) -> None:
    (searched.own / "found.txt").touch()
    top = Path(searched.path).parent
    data = await searched.data(
        "glob", pattern="**/found.txt", path=str(top), mode=PermissionMode.UNCONFINED
    )
    assert data["paths"] == []


async def test_a_search_that_takes_too_long_is_ended_and_says_so(tree) -> None:
    tree.use(Glob(SearchLimits(timeout_seconds=0.0)))
    result = await tree.call("glob", pattern="**")
    assert result.structured_content["error_kind"] == "timed_out"
