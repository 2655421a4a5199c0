from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.confine.private_folders import keep_from_writing, make_private


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_on_the_way_is_made_private_without_help_of_the_umask(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_one_that_is_open_to_others_is_closed_and_those_above_it_are_left(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    make_private(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o777, 0o700)


def test_a_folder_that_may_be_shown_is_only_kept_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    keep_from_writing(tmp_path / "a")
    keep_from_writing(tmp_path / "missing")
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    keep_from_writing(tmp_path / "sticky")
    assert mode(tmp_path / "sticky") == 0o1777
    assert mode(tmp_path / "a") == 0o755
    assert not (tmp_path / "missing").exists()


def test_one_that_is_not_ours_to_close_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / "a").mkdir()
    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(PermissionError, match="open to other users"):
        make_private(tmp_path / "a")


def test_what_is_no_folder_is_no_folder_of_ours(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(NotADirectoryError):
        make_private(tmp_path / "a")


def test_a_path_that_leads_nowhere_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError):
        make_private("a/b")
