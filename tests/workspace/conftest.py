"""A tree so deep that nothing may walk it by recursion, or with a descriptor for each level."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from moorage.process.leftovers import remove_tree


class DeepTree(NamedTuple):
    """A folder with a file below ``depth`` folders, each named d."""

    path: Path
    depth: int


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[DeepTree]:
    tree = DeepTree(Path(os.path.realpath(tmp_path)) / "deep", 1200)
    tree.path.mkdir()
    fd = os.open(tree.path, os.O_RDONLY)
    for _ in range(tree.depth):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    yield tree
    remove_tree(tree.path)
