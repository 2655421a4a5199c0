from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path

import anyio
import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.protocol.tool_calls import ToolResult
from moorage.protocol.workspace_tools import WriteFileArguments
from moorage.tools.file_limits import FileLimits
from moorage.tools.write_file import WriteFile
from moorage.workspace import staged

UNCONFINED = PermissionMode.UNCONFINED


def error_kind(result: ToolResult) -> str:
    assert result.is_error
    return result.structured_content["error_kind"]


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


async def test_a_new_file_and_its_folders_are_created(desk) -> None:
    result = await desk.call("write_file", path="src/deep/a.txt", content="one\ntwo\n")
    assert result.text == "Created src/deep/a.txt (8 bytes)."
    structured = result.structured_content
    assert structured["diff"]["new_file"]
    assert [line["op"] for line in structured["diff"]["hunks"][0]["lines"]] == ["insert"] * 2
    del structured["diff"]
    assert structured == {
        "action": "create",
        "path": "src/deep/a.txt",
        "written_bytes": 8,
        "old_file_sha": "",
        "new_file_sha": sha(b"one\ntwo\n"),
        "workspace_revision": "",
    }
    assert (desk.path / "src/deep/a.txt").read_bytes() == b"one\ntwo\n"
    assert desk.names() == ["src", "src/deep", "src/deep/a.txt"]


async def test_new_files_are_0644_and_folders_0755_within_the_umask(desk) -> None:
    before = os.umask(0o002)
    try:
        await desk.call("write_file", path="folder/a.txt", content="")
    finally:
        os.umask(before)
    assert stat.S_IMODE((desk.path / "folder").stat().st_mode) == 0o755
    assert stat.S_IMODE((desk.path / "folder/a.txt").stat().st_mode) == 0o644


async def test_an_existing_file_keeps_its_mode_and_loses_set_user_id(desk) -> None:
    target = desk.path / "run.sh"
    target.write_text("old\n")
    for mode, kept in ((0o750, 0o750), (0o4755, 0o755)):
        target.chmod(mode)
        result = await desk.call("write_file", path="run.sh", content=f"mode {mode}\n")
        assert result.structured_content["action"] == "overwrite"
        assert stat.S_IMODE(target.stat().st_mode) == kept


@pytest.mark.needs("root")
async def test_an_existing_file_keeps_its_owner(desk) -> None:
    target = desk.path / "a.txt"
    target.write_text("old\n")
    os.chown(target, 1234, 2345)
    await desk.call("write_file", path="a.txt", content="new\n")
    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 2345)


async def test_a_file_whose_owner_cannot_be_kept_is_left_alone(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    target = desk.path / "a.txt"
    target.write_text("old\n")
    monkeypatch.setattr(os, "fchown", refuse)
    real_fstat = os.fstat

    def foreign(fd: int) -> os.stat_result:
        status = list(real_fstat(fd))
        if stat.S_IMODE(status[0]) == 0o600:  # the new content on its way
            status[4] += 1
        return os.stat_result(status)

    monkeypatch.setattr(staged.os, "fstat", foreign)
    monkeypatch.setattr("moorage.workspace.files.fingerprint", lambda status: (status.st_size,))
    with pytest.raises(Refused) as caught:
        await desk.call("write_file", path="a.txt", content="new\n")
    assert caught.value.reason == "owner_not_kept"
    assert target.read_text() == "old\n"
    assert desk.names() == ["a.txt"]


async def test_user_attributes_survive_and_the_kernels_own_do_not(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried: list[tuple[str, bytes]] = []
    names = ["user.origin", "security.capability", "system.posix_acl_access"]
    monkeypatch.setattr(os, "listxattr", lambda *_, **__: names)
    monkeypatch.setattr(os, "getxattr", lambda _, name, **__: name.encode())
    monkeypatch.setattr(os, "setxattr", lambda _, name, value: carried.append((name, value)))
    (desk.path / "a.txt").write_text("old\n")
    await desk.call("write_file", path="a.txt", content="new\n")
    kept = ["user.origin", "system.posix_acl_access"]
    assert carried == [(name, name.encode()) for name in kept]


async def test_an_overwrite_names_old_and_new_hash_and_the_difference(desk) -> None:
    (desk.path / "a.txt").write_text("a\nb\n")
    result = await desk.call("write_file", path="a.txt", content="a\nc\n")
    assert result.structured_content["old_file_sha"] == sha(b"a\nb\n")
    assert result.structured_content["new_file_sha"] == sha(b"a\nc\n")
    assert result.structured_content["diff"]["summary"] == "+1 -1 lines"
    assert result.text == "Overwrote a.txt (4 bytes, +1 -1 lines)."


async def test_32768_bytes_are_small_and_32769_need_a_policy(desk) -> None:
    small, long = b"x" * 32_768, b"x" * 32_769
    (desk.path / "small.txt").write_bytes(small)
    (desk.path / "long.txt").write_bytes(long)
    passed = await desk.call("write_file", path="small.txt", content="new")
    assert not passed.is_error
    refused = await desk.call("write_file", path="long.txt", content="new")
    assert error_kind(refused) == "broad_overwrite"
    assert "explicit_user_requested" in refused.text
    assert (desk.path / "long.txt").read_bytes() == long


async def test_other_content_of_the_same_size_needs_a_policy_too(desk) -> None:
    (desk.path / "long.txt").write_bytes(b"x" * 32_769)
    refused = await desk.call("write_file", path="long.txt", content="y" * 32_769)
    assert error_kind(refused) == "broad_overwrite"
    assert (desk.path / "long.txt").read_bytes() == b"x" * 32_769


async def test_a_request_of_the_user_always_passes(desk) -> None:
    (desk.path / "long.txt").write_bytes(b"x" * 40_000)
    result = await desk.call(
        "write_file", path="long.txt", content="new", overwrite_policy="explicit_user_requested"
    )
    assert not result.is_error
    assert result.structured_content["diff"]["truncated"]


async def test_small_file_is_no_reason_above_the_threshold(desk) -> None:
    (desk.path / "long.txt").write_bytes(b"x" * 40_000)
    result = await desk.call(
        "write_file", path="long.txt", content="new", overwrite_policy="small_file"
    )
    assert error_kind(result) == "broad_overwrite"


@pytest.mark.parametrize(
    ("path", "is_accepted"),
    [
        ("dist/app.css", True),
        ("a/gen/b.txt", True),
        ("types.generated.ts", True),
        ("x.gen.go", True),
        ("service.pb.go", True),
        ("lib.min.js", True),
        ("src/app.css", False),
        ("distribution/app.css", False),
        ("generated.txt", False),
    ],
)
async def test_generated_passes_only_for_paths_that_programs_write(
    desk, path: str, is_accepted: bool
) -> None:
    target = desk.path / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"x" * 40_000)
    result = await desk.call("write_file", path=path, content="n", overwrite_policy="generated")
    assert result.is_error is not is_accepted


async def test_an_unknown_policy_is_an_argument_error(desk) -> None:
    with pytest.raises(InvalidArguments, match="argument overwrite_policy"):
        await desk.call("write_file", path="a", content="", overwrite_policy="because")


async def test_identical_content_always_passes_and_touches_nothing(desk) -> None:
    target = desk.path / "long.txt"
    target.write_bytes(b"x" * 40_000)
    before = target.stat()
    result = await desk.call("write_file", path="long.txt", content="x" * 40_000)
    assert not result.is_error
    assert "exactly this content" in result.text
    assert result.structured_content["old_file_sha"] == result.structured_content["new_file_sha"]
    after = target.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_create_only_leaves_an_existing_file_unchanged(desk) -> None:
    (desk.path / "a.txt").write_text("old")
    result = await desk.call("write_file", path="a.txt", content="new", create_only=True)
    assert error_kind(result) == "already_exists"
    assert (desk.path / "a.txt").read_text() == "old"
    created = await desk.call("write_file", path="b.txt", content="new", create_only=True)
    assert created.structured_content["action"] == "create"


async def test_of_parallel_exclusive_creations_exactly_one_succeeds(desk) -> None:
    tool = WriteFile(FileLimits(inline_bytes=1))  # every call in a thread of its own
    outcomes: list[tuple[int, ToolResult]] = []

    async def create(number: int) -> None:
        arguments = WriteFileArguments(path="new/a.txt", content=f"{number:04d}", create_only=True)
        outcomes.append((number, await tool.run(arguments, desk.context())))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(create, number)
    winners = [number for number, result in outcomes if not result.is_error]
    assert len(winners) == 1
    assert (desk.path / "new/a.txt").read_text() == f"{winners[0]:04d}"
    assert desk.names() == ["new", "new/a.txt"]


async def test_exclusive_creation_holds_against_other_workers(desk, tmp_path: Path) -> None:
    barrier = threading.Barrier(8)
    results: list[ToolResult] = []

    def create(number: int) -> None:
        async def once() -> None:
            barrier.wait(timeout=5)
            arguments = WriteFileArguments(path="a.txt", content=str(number), create_only=True)
            results.append(await WriteFile().run(arguments, desk.context()))

        anyio.run(once)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join, 10)
    assert sum(not result.is_error for result in results) == 1
    assert len(results) == 8


async def test_exclusive_creation_without_hard_links_is_as_strict(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    first = await desk.call("write_file", path="a.txt", content="one", create_only=True)
    assert not first.is_error
    (desk.path / "b.txt").write_text("taken")
    tool_result = await desk.call("write_file", path="b.txt", content="two", create_only=True)
    assert error_kind(tool_result) == "already_exists"
    assert (desk.path / "b.txt").read_text() == "taken"
    assert desk.names() == ["a.txt", "b.txt"]


@pytest.mark.parametrize("content", ["", "snow \N{SNOWMAN}\r\n"])
async def test_content_is_written_as_it_is(desk, content: str) -> None:
    await desk.call("write_file", path="a.txt", content=content)
    assert (desk.path / "a.txt").read_bytes() == content.encode()


async def test_a_symlink_stays_and_its_target_changes(desk) -> None:
    (desk.path / "real").mkdir()
    (desk.path / "real/a.txt").write_text("old")
    (desk.path / "link.txt").symlink_to("real/a.txt")
    (desk.path / "absolute.txt").symlink_to(desk.path / "real/a.txt")
    for name in ("link.txt", "absolute.txt"):
        result = await desk.call("write_file", path=name, content=f"by {name}")
        assert result.structured_content["path"] == "real/a.txt"
        assert (desk.path / name).is_symlink()
        assert (desk.path / "real/a.txt").read_text() == f"by {name}"


async def test_a_dangling_symlink_inside_is_a_path_to_its_target(desk) -> None:
    (desk.path / "link.txt").symlink_to("new/target.txt")
    result = await desk.call("write_file", path="link.txt", content="x")
    assert result.structured_content["action"] == "create"
    assert (desk.path / "new/target.txt").read_text() == "x"
    assert (desk.path / "link.txt").is_symlink()


def make_escapes(desk) -> dict[str, str]:
    (desk.outside / "victim.txt").write_text("victim")
    (desk.path / "last").symlink_to(desk.outside / "victim.txt")
    (desk.path / "dangling").symlink_to(desk.outside / "created.txt")
    (desk.path / "relative").symlink_to("../outside/created.txt")
    (desk.path / "middle").symlink_to(desk.outside)
    (desk.path / "chain").symlink_to("dangling")
    return {
        "..": "../outside/created.txt",
        "absolute": str(desk.outside / "created.txt"),
        "last component": "last",
        "dangling": "dangling",
        "dangling relative": "relative",
        "middle": "middle/created.txt",
        "middle, new folder": "middle/new/created.txt",
        "chain": "chain",
        "back and forth": "middle/../outside/created.txt",
        "missing and up": "no/such/../../../outside/created.txt",
    }


@pytest.mark.parametrize("tool", ["write_file", "edit_file", "read_file"])
async def test_no_path_leads_out_and_nothing_is_created(desk, tool: str) -> None:
    for kind, path in make_escapes(desk).items():
        arguments = {"path": path}
        if tool == "write_file":
            arguments["content"] = "x"
        elif tool == "edit_file":
            arguments |= {"old_text": "victim", "new_text": "x"}
        with pytest.raises(Refused) as caught:
            await desk.call(tool, **arguments)
        assert caught.value.reason == "boundary_denied", kind
        assert "--writable" in str(caught.value)
        assert "mode" in str(caught.value)
    assert desk.listing(desk.outside) == ["victim.txt"]
    assert (desk.outside / "victim.txt").read_text() == "victim"
    assert desk.names() == ["chain", "dangling", "last", "middle", "relative"]


async def test_unconfined_writes_anywhere_except_protected_files(desk) -> None:
    await desk.call(
        "write_file", mode=UNCONFINED, path=str(desk.outside / "new/a.txt"), content="x"
    )
    assert (desk.outside / "new/a.txt").read_text() == "x"
    for path in (".git/config", ".env", str(desk.outside / ".ssh/id_rsa")):
        with pytest.raises(Refused) as caught:
            await desk.call("write_file", mode=UNCONFINED, path=path, content="x")
        assert caught.value.reason == "protected_path"
    assert desk.names() == []


async def test_moorages_home_is_not_written_in_any_mode(desk) -> None:
    for path in ("config.json", "session/tool-results/run.log"):
        with pytest.raises(Refused):
            await desk.call(
                "write_file", mode=UNCONFINED, path=str(desk.own.parent / path), content="x"
            )
    with pytest.raises(Refused):
        await desk.call("write_file", path=str(desk.own / "a.log"), content="x")


async def test_a_symlink_to_a_protected_file_is_protected(desk) -> None:
    (desk.path / ".env").write_text("A=1\n")
    (desk.path / "notes.txt").symlink_to(".env")
    with pytest.raises(Refused) as caught:
        await desk.call("write_file", path="notes.txt", content="x")
    assert caught.value.reason == "protected_path"
    assert (desk.path / ".env").read_text() == "A=1\n"


async def test_folders_and_special_files_are_no_targets(desk) -> None:
    (desk.path / "folder").mkdir()
    os.mkfifo(desk.path / "pipe")
    for path in ("folder", "folder/", ".", "new/"):
        result = await desk.call("write_file", path=path, content="x")
        assert error_kind(result) == "is_a_folder"
    with anyio.fail_after(5):
        result = await desk.call("write_file", path="pipe", content="x")
    assert error_kind(result) == "not_a_regular_file"
    assert desk.names() == ["folder", "pipe"]


async def test_odd_paths_are_told_apart(desk) -> None:
    (desk.path / "a.txt").write_text("x")
    for path, kind in (("a.txt/b", "not_a_folder"), ("n" * 300, "name_too_long")):
        assert error_kind(await desk.call("write_file", path=path, content="x")) == kind
    for path in ("", "a\0b"):
        with pytest.raises(InvalidArguments):
            await desk.call("write_file", path=path, content="x")
    (desk.path / "loop").symlink_to("loop")
    assert error_kind(await desk.call("write_file", path="loop", content="x")) == "symlink_loop"
    assert desk.names() == ["a.txt", "loop"]


async def test_losing_tests_is_a_warning(desk) -> None:
    old = "def test_one():\n    pass\n\nasync def test_two():\n    pass\n"
    (desk.path / "test_a.py").write_text(old)
    result = await desk.call("write_file", path="test_a.py", content="def test_one():\n    x\n")
    assert result.structured_content["warnings"] == ["1 test declarations are gone: test_two."]
    assert "Warning: 1 test declarations are gone: test_two." in result.text


async def test_a_masked_secret_is_not_written_back(desk) -> None:
    (desk.path / "config.ini").write_text("user = me\npassword = hunter2hunter2\n")
    result = await desk.call(
        "write_file", path="config.ini", content="user = you\npassword = [REDACTED]\n"
    )
    assert error_kind(result) == "redaction_placeholder"
    assert "hunter2hunter2" in (desk.path / "config.ini").read_text()


async def test_text_that_speaks_of_the_mask_is_ordinary(desk) -> None:
    await desk.call("write_file", path="doc.txt", content="It says [REDACTED].\n")
    result = await desk.call("write_file", path="doc.txt", content="[REDACTED] and [REDACTED]\n")
    assert not result.is_error


async def test_long_content_is_written_beside_the_event_loop(desk) -> None:
    tool = WriteFile(FileLimits(inline_bytes=1000, small_file_bytes=100_000))
    old, new = "a\n" * 1000, "b\n" * 2000
    for content, action in ((old, "create"), (new, "overwrite")):
        arguments = WriteFileArguments(path="a.txt", content=content)
        result = await tool.run(arguments, desk.context())
        assert result.structured_content["action"] == action
    assert result.structured_content["old_file_sha"] == sha(old.encode())
    assert result.structured_content["diff"]["old_lines"] == 1000
    assert result.structured_content["diff"]["truncated"]
    assert (desk.path / "a.txt").read_text() == new


async def test_more_than_a_call_may_carry_names_the_other_ways(desk) -> None:
    assert not (await desk.call("write_file", path="a.txt", content="x" * 1_048_576)).is_error
    result = await desk.call("write_file", path="b.txt", content="x" * 1_048_577)
    assert error_kind(result) == "too_large"
    assert "write_bytes" in result.text
    assert desk.names() == ["a.txt"]


async def test_a_file_that_appears_meanwhile_is_not_overwritten(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = staged.StagedFile.write

    def write(self: staged.StagedFile, data: bytes) -> None:
        real_write(self, data)
        (desk.path / "a.txt").write_text("by another")

    monkeypatch.setattr(staged.StagedFile, "write", write)
    result = await desk.call("write_file", path="a.txt", content="mine")
    assert error_kind(result) == "changed_meanwhile"
    assert (desk.path / "a.txt").read_text() == "by another"
    assert desk.names() == ["a.txt"]


@pytest.mark.needs("root", "mounts")
async def test_a_full_disk_is_one_sentence_and_leaves_nothing(desk, make_small_disk) -> None:
    disk = desk.path / "disk"
    disk.mkdir()
    make_small_disk(disk)
    (disk / "old.txt").write_text("old\n")
    for path in ("disk/new/a.txt", "disk/old.txt"):
        result = await desk.call("write_file", path=path, content="x" * 200_000)
        assert error_kind(result) == "disk_full"
        assert f"The disk is full; {path} was left as it was." in result.text
    assert (disk / "old.txt").read_text() == "old\n"
    assert desk.listing(disk) == ["old.txt"]


@pytest.mark.needs("root", "mounts")
async def test_a_read_only_disk_is_one_sentence_and_leaves_nothing(desk, make_small_disk) -> None:
    disk = desk.path / "disk"
    disk.mkdir()
    (disk / "old.txt").write_text("old\n")
    make_small_disk(disk, is_read_only=True)
    for path in ("disk/new/a.txt", "disk/b.txt", "disk/old.txt"):
        result = await desk.call("write_file", path=path, content="x")
        assert error_kind(result) == "read_only_disk"
        assert "read-only disk" in result.text
    assert desk.listing(disk) == ["old.txt"]


async def test_a_failing_disk_is_told_with_the_systems_words(
    desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", fail)
    result = await desk.call("write_file", path="new/a.txt", content="x")
    assert error_kind(result) == "system_error"
    assert "Input/output error" in result.text
    assert desk.names() == []
