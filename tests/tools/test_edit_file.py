from __future__ import annotations

import hashlib
import os
import stat

import anyio
import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ToolResult
from moorage.protocol.workspace_tools import EditFileArguments
from moorage.tools.edit_file import EditFile
from moorage.tools.file_limits import FileLimits
from moorage.workspace import staged
from moorage.workspace.edit import PLACEHOLDER
from moorage.workspace.redact import MASK


def error_kind(result: ToolResult) -> str:
    assert result.is_error
    return result.structured_content["error_kind"]


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


async def edit(desk, path: str, old: str, new: str, **more: object) -> ToolResult:
    return await desk.call("edit_file", path=path, old_text=old, new_text=new, **more)


async def test_an_edit_tells_what_changed(desk) -> None:
    (desk.path / "example.txt").write_text("hello\n")
    result = await edit(desk, "example.txt", "hello", "hello world")
    assert result.text == "Edited example.txt: 1 replacement in line 1 (+1 -1 lines)."
    structured = result.structured_content
    assert structured.pop("diff")["hunks"][0]["lines"] == [
        {"op": "delete", "content": "hello"},
        {"op": "insert", "content": "hello world"},
    ]
    assert structured == {
        "action": "edit",
        "path": "example.txt",
        "replacements": 1,
        "old_file_sha": sha(b"hello\n"),
        "new_file_sha": sha(b"hello world\n"),
        "workspace_revision": "",
    }
    assert desk.names() == ["example.txt"]


async def test_without_a_match_bytes_time_and_mode_stay_and_candidates_are_given(desk) -> None:
    target = desk.path / "a.py"
    target.write_bytes(b"def total(items):\n    return sum(items)\n\nother = 1\n")
    target.chmod(0o754)
    os.utime(target, ns=(1_000_000_000, 2_000_000_000))
    before = target.stat()
    result = await edit(desk, "a.py", "def total(item):\n    return sum(items)", "x")
    assert error_kind(result) == "old_text_not_found"
    best = result.structured_content["candidates"][0]
    assert (best["start_line"], best["end_line"]) == (1, 2)
    assert best["snippet"] == "def total(items):\n    return sum(items)"
    assert 0.8 < best["score"] < 1
    assert "lines 1 to 2" in result.text
    after = target.stat()
    assert target.read_bytes().startswith(b"def total(items):")
    for field in ("st_ino", "st_mtime_ns", "st_ctime_ns", "st_mode", "st_size"):
        assert getattr(after, field) == getattr(before, field)


async def test_only_indentation_differing_is_hinted(desk) -> None:
    (desk.path / "a.py").write_text("class A:\n    def run(self):\n        return 1\n")
    result = await edit(desk, "a.py", "def run(self):\n    return 1", "x")
    candidate = result.structured_content["candidates"][0]
    assert candidate["hint"] == "Only white space at the start or end of lines differs."
    assert candidate["score"] == 1.0


async def test_two_matches_change_nothing_and_both_places_are_given(desk) -> None:
    (desk.path / "a.txt").write_text("x = 1\ny = 2\nx = 1\n")
    result = await edit(desk, "a.txt", "x = 1", "x = 3")
    assert error_kind(result) == "ambiguous_old_text"
    assert result.structured_content["count"] == 2
    assert [place["start_line"] for place in result.structured_content["candidates"]] == [1, 3]
    assert "line 1 " in result.text
    assert "line 3 " in result.text
    assert (desk.path / "a.txt").read_text() == "x = 1\ny = 2\nx = 1\n"


async def test_replace_all_changes_both(desk) -> None:
    (desk.path / "a.txt").write_text("x = 1\ny = 2\nx = 1\n")
    result = await edit(desk, "a.txt", "x = 1", "x = 3", replace_all=True)
    assert result.structured_content["replacements"] == 2
    assert "2 replacements from line 1 on" in result.text
    assert (desk.path / "a.txt").read_text() == "x = 3\ny = 2\nx = 3\n"


async def test_a_crlf_file_edited_with_lf_text_stays_crlf_throughout(desk) -> None:
    target = desk.path / "a.txt"
    target.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    result = await edit(desk, "a.txt", "one\ntwo\n", "1\n2\nmore\n")
    assert not result.is_error
    assert target.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\nmore\r\nthree\r\n"


async def test_bytes_that_are_not_utf8_elsewhere_stay(desk) -> None:
    target = desk.path / "a.txt"
    target.write_bytes(b"caf\xe9\nname\n\xff\xfe\n")
    await edit(desk, "a.txt", "name", "title")
    assert target.read_bytes() == b"caf\xe9\ntitle\n\xff\xfe\n"


async def test_the_executable_bit_and_the_symlink_survive(desk) -> None:
    target = desk.path / "run.sh"
    target.write_text("#!/bin/sh\necho a\n")
    target.chmod(0o755)
    (desk.path / "link.sh").symlink_to("run.sh")
    result = await edit(desk, "link.sh", "echo a", "echo b")
    assert result.structured_content["path"] == "run.sh"
    assert (desk.path / "link.sh").is_symlink()
    assert target.read_text() == "#!/bin/sh\necho b\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o755


async def test_a_missing_file_names_its_neighbours(desk) -> None:
    (desk.path / "main.py").touch()
    result = await edit(desk, "mian.py", "a", "b")
    assert error_kind(result) == "not_found"
    assert "Did you mean main.py?" in result.text
    assert desk.names() == ["main.py"]


async def test_a_file_in_a_missing_folder_is_not_created(desk) -> None:
    assert error_kind(await edit(desk, "no/a.txt", "a", "b")) == "not_found"
    assert desk.names() == []


@pytest.mark.parametrize(
    ("old", "new", "telling"), [("", "x", "old_text is empty"), ("same", "same", "are the same")]
)
async def test_texts_that_make_no_edit_are_argument_errors(
    desk, old: str, new: str, telling: str
) -> None:
    (desk.path / "a.txt").write_text("same")
    with pytest.raises(InvalidArguments, match=telling):
        await edit(desk, "a.txt", old, new)


async def test_folders_and_special_files_are_told(desk) -> None:
    (desk.path / "folder").mkdir()
    os.mkfifo(desk.path / "pipe")
    assert error_kind(await edit(desk, "folder", "a", "b")) == "is_a_folder"
    with anyio.fail_after(5):
        assert error_kind(await edit(desk, "pipe", "a", "b")) == "not_a_regular_file"


async def test_the_views_numbering_is_recognised(desk) -> None:
    (desk.path / "a.py").write_text("first = 1\nsecond = 2\n")
    view = (await desk.call("read_file", path="a.py")).text
    result = await edit(desk, "a.py", view, "x")
    assert error_kind(result) == "old_text_not_found"
    assert "leave out the numbers and bars" in result.structured_content["hint"]
    assert result.structured_content["candidates"][0]["start_line"] == 1


async def test_parallel_edits_of_one_file_all_arrive(desk) -> None:
    count = 40
    (desk.path / "a.txt").write_text("".join(f"<{number}>\n" for number in range(count)))
    (desk.path / "link.txt").symlink_to("a.txt")
    quick, slow = EditFile(), EditFile(FileLimits(inline_bytes=1))

    async def run(number: int) -> None:
        arguments = EditFileArguments(
            path="link.txt" if number % 2 else "a.txt",
            old_text=f"<{number}>",
            new_text=f"[{number}]",
        )
        tool = quick if number % 3 == 0 else slow
        result = await tool.run(arguments, desk.context())
        assert not result.is_error, result.text

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(run, number)
    assert (desk.path / "a.txt").read_text() == "".join(f"[{number}]\n" for number in range(count))
    assert desk.names() == ["a.txt", "link.txt"]


async def test_an_edit_and_a_rewrite_of_one_file_take_turns(desk) -> None:
    (desk.path / "a.txt").write_text("start\n")
    slow = EditFile(FileLimits(inline_bytes=1))
    results: list[ToolResult] = []

    async def run_edit() -> None:
        arguments = EditFileArguments(path="a.txt", old_text="start", new_text="edited")
        results.append(await slow.run(arguments, desk.context()))

    async def run_write() -> None:
        results.append(await desk.call("write_file", path="a.txt", content="written\n"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run_edit)
            group.start_soon(run_write)
    assert [result.is_error for result in results] == [False, False]
    assert (desk.path / "a.txt").read_text() == "written\n"


async def test_a_redaction_placeholder_matches_nothing_and_is_explained(desk) -> None:
    assert PLACEHOLDER.encode() == MASK
    (desk.path / "a.ini").write_text("password = hunter2hunter2\n")
    result = await edit(desk, "a.ini", "password = [REDACTED]", "password = [REDACTED] # new")
    assert error_kind(result) == "old_text_not_found"
    assert "stands in output for something else" in result.text
    assert (desk.path / "a.ini").read_text() == "password = hunter2hunter2\n"


async def test_a_redaction_placeholder_does_not_replace_a_secret(desk) -> None:
    (desk.path / "a.ini").write_text("password = hunter2hunter2\n")
    result = await edit(desk, "a.ini", "password = hunter2hunter2", "password = [REDACTED]")
    assert error_kind(result) == "redaction_placeholder"
    assert (desk.path / "a.ini").read_text() == "password = hunter2hunter2\n"


async def test_a_protected_file_is_not_edited_in_any_mode(desk) -> None:
    (desk.path / ".npmrc").write_text("a=1\n")
    for mode in PermissionMode:
        with pytest.raises(Refused):
            await edit(desk, ".npmrc", "a=1", "a=2", mode=mode)
    assert (desk.path / ".npmrc").read_text() == "a=1\n"


async def test_a_file_that_changes_during_the_edit_is_left_as_the_other_made_it(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.path / "a.txt").write_text("one\n")
    real_write = staged.StagedFile.write

    def write(self: staged.StagedFile, data: bytes) -> None:
        real_write(self, data)
        (desk.path / "a.txt").write_text("by another\n")

    monkeypatch.setattr(staged.StagedFile, "write", write)
    result = await edit(desk, "a.txt", "one", "two")
    assert error_kind(result) == "changed_meanwhile"
    assert "Read it again" in result.text
    assert (desk.path / "a.txt").read_text() == "by another\n"
    assert desk.names() == ["a.txt"]


async def test_a_file_that_is_removed_during_the_edit_stays_removed(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.path / "a.txt").write_text("one\n")
    real_write = staged.StagedFile.write

    def write(self: staged.StagedFile, data: bytes) -> None:
        real_write(self, data)
        (desk.path / "a.txt").unlink()

    monkeypatch.setattr(staged.StagedFile, "write", write)
    assert error_kind(await edit(desk, "a.txt", "one", "two")) == "changed_meanwhile"
    assert desk.names() == []


async def test_a_file_too_long_to_edit_names_the_way_out(desk) -> None:
    (desk.path / "a.txt").write_text("one\n" * 100)
    tool = EditFile(FileLimits(edit_bytes=100))
    arguments = EditFileArguments(path="a.txt", old_text="one", new_text="two")
    result = await tool.run(arguments, desk.context())
    assert error_kind(result) == "too_large"
    assert "with a command" in result.text


@pytest.mark.needs("root", "mounts")
async def test_a_full_disk_leaves_the_file_as_it_was(desk, make_small_disk) -> None:
    disk = desk.path / "disk"
    disk.mkdir()
    make_small_disk(disk)
    (disk / "a.txt").write_text("x" * 40_000)
    result = await edit(desk, "disk/a.txt", "x" * 40_000, "y" * 40_000)
    assert error_kind(result) == "disk_full"
    assert (disk / "a.txt").read_text() == "x" * 40_000
    assert desk.listing(disk) == ["a.txt"]


async def test_more_matches_than_are_listed_are_all_replaced(desk) -> None:
    (desk.path / "a.txt").write_text("x\n" * 1500)
    result = await edit(desk, "a.txt", "x", "y", replace_all=True)
    assert result.structured_content["replacements"] == 1500
    assert result.structured_content["diff"]["truncated"]
    assert (desk.path / "a.txt").read_text() == "y\n" * 1500
