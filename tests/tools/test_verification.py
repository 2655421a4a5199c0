from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.tools.checks import recognise
from moorage.tools.verification import Repeats, command_hash, with_local_runner


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def rewritten(command: str, folder: int, root: Path) -> str | None:
    check = recognise(command)
    assert check is not None
    return with_local_runner(command, check, folder, str(root))


def test_a_check_without_npx_stays_as_it_is(folder: int, tmp_path: Path) -> None:
    assert rewritten("pytest -q", folder, tmp_path) == "pytest -q"


def test_the_copy_beside_the_command_wins_over_that_of_the_workspace(
    folder: int, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    for place in (tmp_path, root):
        (place / "node_modules/.bin").mkdir(parents=True)
        (place / "node_modules/.bin/jest").touch()
    assert rewritten("npx jest -t 'a b'", folder, root) == "./node_modules/.bin/jest -t 'a b'"


def test_the_folder_that_is_changed_to_counts(folder: int, tmp_path: Path) -> None:
    (tmp_path / "sub/node_modules/.bin").mkdir(parents=True)
    (tmp_path / "sub/node_modules/.bin/tsc").touch()
    command = "cd sub && npx tsc --noEmit"
    root = tmp_path / "elsewhere"
    assert rewritten(command, folder, root) == "cd sub && ./node_modules/.bin/tsc --noEmit"
    assert rewritten("npx tsc --noEmit", folder, root) is None


def test_failures_are_counted_for_one_state_of_the_workspace() -> None:
    repeats = Repeats()
    assert repeats.count("s", "c", "r1", failed=True) == 0
    assert repeats.count("s", "c", "r1", failed=True) == 1
    assert repeats.count("s", "c", "r2", failed=True) == 0
    assert repeats.count("other", "c", "r1", failed=True) == 0
    assert repeats.count("s", "c", "r1", failed=False) == 2
    assert repeats.count("s", "c", "r1", failed=True) == 0


def test_only_so_many_checks_are_remembered() -> None:
    repeats = Repeats()
    for number in range(300):
        repeats.count("s", str(number), "r", failed=True)
    assert repeats.count("s", "0", "r", failed=True) == 0
    assert repeats.count("s", "299", "r", failed=True) == 1


def test_a_command_has_a_short_name() -> None:
    assert len(command_hash("pytest")) == 12
    assert command_hash("pytest") == command_hash("pytest") != command_hash("pytest -q")
