from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.policy.permission import PermissionMode
from moorage.workspace.files import (
    ChangedMeanwhile,
    content_hash,
    open_existing,
    prefixed,
    read_whole,
    steps,
)
from moorage.workspace.opening.location import WrongFileType
from moorage.workspace.root import WorkspaceRoot

STANDARD = PermissionMode.STANDARD


@pytest.fixture
def root(tmp_path: Path) -> Iterator[WorkspaceRoot]:
    root = WorkspaceRoot.open(tmp_path)
    yield root
    root.close()


def open_for_reading(path: Path) -> int:
    return os.open(path, os.O_RDONLY)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 3 * 1024 * 1024 + 5])
def test_a_whole_file_is_read_whatever_its_size(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    fd = open_for_reading(tmp_path / "a")
    try:
        assert read_whole(fd, 4 * 1024 * 1024, "a") == data
        assert b"".join(steps(fd, "a", on_step=lambda: None)) == data
    finally:
        os.close(fd)


def test_a_file_above_the_limit_shows_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 200_000)
    fd = open_for_reading(tmp_path / "a")
    try:
        assert 70_000 < len(read_whole(fd, 70_000, "a")) <= 200_000
    finally:
        os.close(fd)


def test_a_long_file_cut_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    fd = open_for_reading(tmp_path / "a")
    try:
        with pytest.raises(ChangedMeanwhile):
            list(steps(fd, "a", on_step=lambda: os.truncate(tmp_path / "a", 10)))
    finally:
        os.close(fd)


def test_a_step_may_end_the_reading(tmp_path: Path) -> None:
    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    (tmp_path / "a").write_bytes(b"x")
    fd = open_for_reading(tmp_path / "a")
    try:
        with pytest.raises(Ended):
            list(steps(fd, "a", on_step=end))
    finally:
        os.close(fd)


def test_the_file_of_a_target_is_opened_or_told_apart(root: WorkspaceRoot, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "folder").mkdir()
    with root.open_target("a", STANDARD) as target:
        os.close(open_existing(target))
        (tmp_path / "a").write_bytes(b"other")
        with pytest.raises(ChangedMeanwhile):
            open_existing(target)
    with root.open_target("b", STANDARD) as target, pytest.raises(FileNotFoundError):
        open_existing(target)
    with root.open_target("folder", STANDARD) as target, pytest.raises(WrongFileType):
        open_existing(target)


def test_hashes_carry_the_name_of_their_kind() -> None:
    digest = content_hash(b"")
    assert digest.startswith("e3b0c442")
    assert prefixed(digest) == f"sha256:{digest}"
    assert prefixed("") == ""
