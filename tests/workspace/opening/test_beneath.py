from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moorage.workspace.opening import beneath
from moorage.workspace.opening.beneath import (
    FOLDER_FLAGS,
    PROBE_FLAGS,
    open_beneath,
    walk_beneath,
)

Open = Callable[[int, str, int], int]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    inside = tmp_path / "inside"
    (inside / "a/b").mkdir(parents=True)
    (inside / "a/b/file").write_text("content")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    (inside / "out").symlink_to("../outside")
    (inside / "in").symlink_to("a")
    (inside / "a/link").symlink_to("b/file")
    (inside / "absolute").symlink_to(inside / "a")
    fd = os.open(inside, FOLDER_FLAGS)
    yield fd
    os.close(fd)


def outcome(opening: Open, folder: int, relative: str, flags: int) -> tuple[str, int]:
    try:
        fd = opening(folder, relative, flags)
    except OSError as error:
        return "error", error.errno
    try:
        return "opened", os.fstat(fd).st_ino
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("relative", "code"),
    [
        ("out/file", errno.ELOOP),
        ("out", errno.ELOOP),
        ("in/b/file", errno.ELOOP),
        ("a/link", errno.ELOOP),
        ("absolute/b", errno.ELOOP),
        ("a/no", errno.ENOENT),
        ("no/such", errno.ENOENT),
        ("a/b/file/x", errno.ENOTDIR),
        ("../outside/file", errno.EXDEV),
        ("a/../../outside", errno.EXDEV),
    ],
)
@pytest.mark.parametrize("flags", [os.O_RDONLY, PROBE_FLAGS])
def test_no_symlink_is_followed_and_nothing_above_is_reached(
    folder: int, relative: str, code: int, flags: int
) -> None:
    assert outcome(open_beneath, folder, relative, flags) == ("error", code)
    assert outcome(walk_beneath, folder, relative, flags) == ("error", code)


@pytest.mark.parametrize("relative", [".", "a", "a/b", "a/b/file"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, PROBE_FLAGS])
def test_both_ways_open_the_same(folder: int, relative: str, flags: int) -> None:
    kind, number = outcome(open_beneath, folder, relative, flags)
    assert kind == "opened"
    assert outcome(walk_beneath, folder, relative, flags) == (kind, number)


def test_descriptors_are_not_inherited(folder: int) -> None:
    for opening in (open_beneath, walk_beneath):
        fd = opening(folder, "a/b/file", os.O_RDONLY)
        assert not os.get_inheritable(fd)
        os.close(fd)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_a_system_without_the_call_walks(
    folder: int, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def missing(*_: object) -> int:
        ctypes.set_errno(code)
        return -1

    monkeypatch.setattr(beneath, "_syscall", missing)
    assert outcome(open_beneath, folder, "a/b/file", os.O_RDONLY)[0] == "opened"
    assert outcome(open_beneath, folder, "out/file", os.O_RDONLY) == ("error", errno.ELOOP)


def test_an_interrupted_call_is_repeated(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = beneath._syscall
    answers = iter([errno.EINTR, errno.EINTR])

    def interrupted(*arguments: object) -> int:
        code = next(answers, None)
        if code is None:
            return real(*arguments)
        ctypes.set_errno(code)
        return -1

    monkeypatch.setattr(beneath, "_syscall", interrupted)
    assert outcome(open_beneath, folder, "a", PROBE_FLAGS)[0] == "opened"
