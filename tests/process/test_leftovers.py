"""Trees are removed whatever their depth, and nothing outside them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.process.leftovers import remove_tree


def test_a_tree_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ("a/b/c/file", "a/b/other", "left-0/x", "left-1", "d/a/b/c/file"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).touch()
    (top / "d" / "empty").mkdir()
    os.mkfifo(top / "d" / "fifo")
    remove_tree(top)
    assert not top.exists()


def test_a_tree_of_1200_levels_is_removed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    fd = os.open(tmp_path / "top", os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    before = len(os.listdir("/proc/self/fd"))
    remove_tree(tmp_path / "top")
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "top" / "a").mkdir(parents=True)
    (tmp_path / "top" / "a" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "top")
    assert os.listdir(tmp_path / "kept") == ["file"]
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "link")
    assert os.listdir(tmp_path / "kept") == ["file"]


@pytest.mark.needs("not root")
def test_what_cannot_be_removed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "top" / "a").mkdir(parents=True)
    (tmp_path / "top" / "a" / "file").touch()
    (tmp_path / "top" / "a").chmod(0o500)
    with pytest.raises(PermissionError):
        remove_tree(tmp_path / "top")
    (tmp_path / "top" / "a").chmod(0o700)
