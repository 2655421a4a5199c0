"""The walk: order, bounds, races with whoever changes the tree, and no way out of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.workspace.scanning.walker import Walker


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


def walk(path: Path, walker: Walker | None = None) -> list[str]:
    with opened(path) as fd:
        return list((walker or Walker()).files(fd, above=str(path)))


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_files_come_in_the_order_of_their_paths(tmp_path: Path) -> None:
    make(tmp_path, "b", "a/z", "a.txt", "a-b", "A", ".h", "a/b/c", "ab")
    assert walk(tmp_path) == sorted(["b", "a/z", "a.txt", "a-b", "A", ".h", "a/b/c", "ab"])


def test_symlinks_are_left_out_so_that_no_circle_exists(tmp_path: Path) -> None:
    make(tmp_path, "a/x")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "link").symlink_to("a/x")
    (tmp_path / "out").symlink_to("/")
    assert walk(tmp_path) == ["a/x"]


def test_a_folder_swapped_for_a_symlink_meanwhile_is_left_out(tmp_path: Path) -> None:
    make(tmp_path, "tree/a/x", "tree/b/y", "outside/secret")
    walker = Walker()
    with opened(tmp_path / "tree") as fd:
        files = walker.files(fd)
        assert next(files) == "a/x"
        (tmp_path / "tree" / "b" / "y").unlink()
        (tmp_path / "tree" / "b").rmdir()
        (tmp_path / "tree" / "b").symlink_to(tmp_path / "outside")
        assert list(files) == []
    assert walker.unreadable == 1


def test_a_tree_of_any_depth_is_walked(deep_tree) -> None:
    assert walk(deep_tree.path) == [f"{'d/' * deep_tree.depth}file"]


def test_a_folder_that_went_away_is_counted(tmp_path: Path) -> None:
    make(tmp_path, "a/x", "b/y")
    walker = Walker()
    with opened(tmp_path) as fd:
        files = walker.files(fd)
        next(files)
        (tmp_path / "b" / "y").unlink()
        (tmp_path / "b").rmdir()
        assert list(files) == []
    assert walker.unreadable == 1


def test_no_descriptor_is_left_open_whether_the_walk_ends_or_is_dropped(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c/d", "a/b/x")
    before = len(os.listdir("/proc/self/fd"))
    walk(tmp_path)
    with opened(tmp_path) as fd:
        files = Walker().files(fd)
        next(files)
        files.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_excluded_paths_are_never_entered(tmp_path: Path) -> None:
    make(tmp_path, "a/own/x", "own/y", "a/z")
    assert walk(tmp_path, Walker(excluded=frozenset({"a/own"}))) == ["a/z", "own/y"]


def test_a_worktree_knows_what_its_repository_excludes(tmp_path: Path) -> None:
    make(tmp_path, "main/.git/worktrees/w/HEAD", "tree/a.x", "tree/a.y")
    (tmp_path / "main" / ".git" / "info").mkdir()
    (tmp_path / "main" / ".git" / "info" / "exclude").write_text("*.x\n")
    private = tmp_path / "main" / ".git" / "worktrees" / "w"
    (private / "commondir").write_text("../..\n")
    (tmp_path / "tree" / ".git").write_text(f"gitdir: {private}\n")
    assert walk(tmp_path / "tree") == ["a.y"]


@pytest.mark.parametrize("pointer", ["gitdir: /nowhere\n", "nonsense", ""])
def test_a_worktree_whose_repository_is_gone_is_walked_all_the_same(
    tmp_path: Path, pointer: str
) -> None:
    make(tmp_path, "a")
    (tmp_path / ".git").write_text(pointer)
    assert walk(tmp_path) == ["a"]


def test_an_ignore_file_that_is_none_is_passed_over(tmp_path: Path) -> None:
    make(tmp_path, "a", "b/.ignore/x", ".git/HEAD")
    os.mkfifo(tmp_path / ".ignore")
    (tmp_path / ".rgignore").symlink_to("nowhere")
    assert walk(tmp_path) == ["a", "b/.ignore/x"]


@pytest.mark.parametrize("name", [".ignore", ".gitignore", ".rgignore", ".git/info/exclude"])
def test_a_linked_ignore_file_does_not_count(tmp_path: Path, name: str) -> None:
    make(tmp_path, "tree/a", "tree/.git/HEAD", f"tree/{name}")
    (tmp_path / "hidden").write_text("a\n")
    (tmp_path / "tree" / name).unlink()
    (tmp_path / "tree" / name).symlink_to(tmp_path / "hidden")
    assert walk(tmp_path / "tree") == ["a"]


def test_two_walks_over_one_descriptor_do_not_disturb_each_other(tmp_path: Path) -> None:
    make(tmp_path, *(f"d{number}/f" for number in range(200)))
    found: list[int] = []
    with opened(tmp_path) as fd:

        def count() -> None:
            found.append(sum(1 for _ in Walker().files(fd)))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
    assert found == [200] * 4
