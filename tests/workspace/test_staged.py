from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.policy.permission import PermissionMode
from moorage.workspace import staged
from moorage.workspace.files import ChangedMeanwhile
from moorage.workspace.opening.location import WrongFileType
from moorage.workspace.root import WorkspaceRoot
from moorage.workspace.staged import AlreadyThere, StagedFile

STANDARD = PermissionMode.STANDARD


class Shelf:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = WorkspaceRoot.open(path)

    def put(self, name: str, data: bytes, *, anonymous: bool = False, **commit: bool) -> None:
        where = self.root.open_target(name, STANDARD)
        with where as target, StagedFile(target, anonymous=anonymous) as file:
            file.write(data)
            file.commit(**commit)

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    yield shelf
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor was left open"
    shelf.root.close()


@pytest.mark.parametrize("anonymous", [False, True])
def test_content_takes_its_name_at_once(shelf: Shelf, anonymous: bool) -> None:
    shelf.put("x/y/a", b"one", anonymous=anonymous)
    shelf.put("x/y/a", b"two", anonymous=anonymous)
    assert (shelf.path / "x/y/a").read_bytes() == b"two"
    assert shelf.names() == ["x", "x/y", "x/y/a"]


@pytest.mark.parametrize("anonymous", [False, True])
def test_without_a_commit_nothing_is_left(shelf: Shelf, anonymous: bool) -> None:
    where = shelf.root.open_target("x/y/a", STANDARD)
    with where as target, StagedFile(target, anonymous=anonymous) as file:
        file.write(b"half")
    assert shelf.names() == []


def test_a_new_file_is_not_put_over_one_that_appeared(shelf: Shelf) -> None:
    where = shelf.root.open_target("a", STANDARD)
    with where as target, StagedFile(target) as file:
        (shelf.path / "a").write_bytes(b"theirs")
        with pytest.raises(AlreadyThere):
            file.commit()
    assert (shelf.path / "a").read_bytes() == b"theirs"
    assert shelf.names() == ["a"]


def test_a_changed_or_removed_file_is_not_replaced(shelf: Shelf) -> None:
    for number, change in enumerate((lambda path: path.write_bytes(b"theirs"), Path.unlink)):
        path = shelf.path / f"a{number}"
        path.write_bytes(b"old")
        where = shelf.root.open_target(path.name, STANDARD)
        with where as target, StagedFile(target) as file:
            change(path)
            with pytest.raises(ChangedMeanwhile):
                file.commit()
    assert shelf.names() == ["a0"]


def test_folders_made_by_another_are_kept_when_the_write_fails(shelf: Shelf) -> None:
    where = shelf.root.open_target("x/y/a", STANDARD)
    with where as target:
        (shelf.path / "x").mkdir()
        with StagedFile(target) as file:
            file.write(b"half")
    assert shelf.names() == ["x"]


def test_a_folder_in_use_by_another_is_kept_when_the_write_fails(shelf: Shelf) -> None:
    where = shelf.root.open_target("x/a", STANDARD)
    with where as target, StagedFile(target) as file:
        file.write(b"half")
        (shelf.path / "x/theirs").write_bytes(b"theirs")
    assert shelf.names() == ["x", "x/theirs"]


def test_a_folder_swapped_for_a_symlink_is_not_entered(
    shelf: Shelf, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    real_mkdir = os.mkdir

    def mkdir(name: str, mode: int, *, dir_fd: int) -> None:
        real_mkdir(name, mode, dir_fd=dir_fd)
        (shelf.path / name).rmdir()
        (shelf.path / name).symlink_to(outside)

    where = shelf.root.open_target("x/a", STANDARD)
    with where as target, monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", mkdir)
        with pytest.raises(NotADirectoryError):
            StagedFile(target)
    assert list(outside.iterdir()) == []
    assert shelf.names() == ["x"]


def test_a_folder_is_no_target(shelf: Shelf) -> None:
    (shelf.path / "folder").mkdir()
    with shelf.root.open_target("folder", STANDARD) as target, pytest.raises(WrongFileType):
        StagedFile(target)


def test_a_file_that_may_not_be_written_is_left_alone(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shelf.path / "a").write_bytes(b"old")
    (shelf.path / "a").chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with shelf.root.open_target("a", STANDARD) as target, pytest.raises(PermissionError):
        StagedFile(target)
    assert shelf.names() == ["a"]


def test_a_failed_claim_without_hard_links_frees_the_name(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EMLINK, "no links")

    def no_rename(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(os, "rename", no_rename)
    with pytest.raises(OSError, match="broken"):
        shelf.put("a", b"x")
    assert shelf.names() == []


def test_another_failure_of_a_claim_is_passed_on(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(OSError, match="broken"):
        shelf.put("x/a", b"x")
    assert shelf.names() == []


def test_a_disk_that_complains_at_the_end_leaves_the_old_file(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shelf.path / "a").write_bytes(b"old")
    real_close = os.close
    content: list[int] = []
    real_open = os.open

    def opening(path: object, flags: int, *rest: object, **more: object) -> int:
        fd = real_open(path, flags, *rest, **more)
        if flags & os.O_CREAT:
            content.append(fd)
        return fd

    def closing(fd: int) -> None:
        real_close(fd)
        if fd in content:
            content.clear()
            raise OSError(errno.EDQUOT, "quota exceeded")

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "close", closing)
    with pytest.raises(OSError, match="quota exceeded"):
        shelf.put("a", b"new")
    assert (shelf.path / "a").read_bytes() == b"old"
    assert shelf.names() == ["a"]


def test_nameless_content_needs_a_way_to_name_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "_OWN_DESCRIPTORS", "/nowhere")
    shelf.put("a", b"x", anonymous=True)
    assert shelf.names() == ["a"]


def test_an_unexpected_answer_to_a_nameless_file_is_passed_on(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def refuse(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.ENOSPC, "full")
        return real_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="full"):
        shelf.put("a", b"x", anonymous=True)
    assert shelf.names() == []


def test_systems_without_attributes_are_served(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shelf.path / "a").write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.delattr(os, "listxattr")
        shelf.put("a", b"one")

    def refuse(*_: object, **__: object) -> list[str]:
        raise OSError(errno.ENOTSUP, "none here")

    monkeypatch.setattr(os, "listxattr", refuse)
    shelf.put("a", b"two")
    assert (shelf.path / "a").read_bytes() == b"two"
