"""An adversary in another process swaps what a path leads to, as fast as it can."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.errors import Refused
from moorage.policy.permission import PermissionMode
from moorage.workspace.files import ChangedMeanwhile
from moorage.workspace.opening import beneath, scopes
from moorage.workspace.root import WorkspaceRoot
from moorage.workspace.staged import StagedFile

ROUNDS = 10_000
STANDARD = PermissionMode.STANDARD

# Exchanges two names in one step, for ever; tells when it has begun.
ADVERSARY = """
import ctypes, os, sys
exchange = ctypes.CDLL(None).renameat2
left, right = (name.encode() for name in sys.argv[1:])
parent = os.getppid()
count = 0
while os.getppid() == parent:
    if exchange(-100, left, -100, right, 2):
        sys.exit("renameat2 failed")
    count += 1
    if count == 10:
        print("begun", flush=True)
"""


@contextmanager
def adversary(left: Path, right: Path) -> Iterator[None]:
    command = [sys.executable, "-I", "-S", "-c", ADVERSARY, str(left), str(right)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begun\n"
            yield
            assert child.poll() is None
        finally:
            child.kill()


class Harbour:
    """A workspace with a file, and a like one outside that must stay untouched and unseen."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workspace"
        self.outside = folder / "outside"
        for made, content in ((self.path / "target", b"inside"), (self.outside, b"outside")):
            made.mkdir(parents=True)
            (made / "a.txt").write_bytes(content)
        self.root = WorkspaceRoot.open(self.path)
        self.outcomes: Counter[str] = Counter()

    def read(self) -> None:
        fd, location = self.root.open_read("target/a.txt", STANDARD)
        try:
            content = os.read(fd, 100)
        finally:
            os.close(fd)
        assert content in (b"inside", b"written"), "read outside the workspace"
        assert location.absolute.startswith(str(self.path))

    def write(self) -> None:
        where = self.root.open_target("target/a.txt", STANDARD)
        with where as target, StagedFile(target) as staged:
            staged.write(b"written")
            staged.commit()

    def create(self) -> None:
        where = self.root.open_target("target/new/b.txt", STANDARD)
        with where as target, StagedFile(target) as staged:
            staged.write(b"written")
            staged.commit(replace_any=True)

    def round(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Refused:
            self.outcomes["refused"] += 1
        except (OSError, ChangedMeanwhile) as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["done"] += 1

    def run(self, actions: list[Callable[[], None]]) -> None:
        """Go at least the full number of rounds, and on until both outcomes were seen."""
        count = 0
        while count < ROUNDS or not (self.outcomes["done"] and self.outcomes["refused"]):
            self.round(actions[count % len(actions)])
            count += 1

    def check_outside(self) -> None:
        assert os.listdir(self.outside) == ["a.txt"]
        assert (self.outside / "a.txt").read_bytes() == b"outside"


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Harbour]:
    harbour = Harbour(tmp_path)
    yield harbour
    harbour.root.close()


def test_a_folder_swapped_for_a_symlink_lets_nothing_out(harbour: Harbour) -> None:
    (harbour.path / "link").symlink_to(harbour.outside)
    with adversary(harbour.path / "target", harbour.path / "link"):
        harbour.run([harbour.read, harbour.read, harbour.write, harbour.create])
    harbour.check_outside()


def test_a_file_swapped_for_a_symlink_lets_nothing_out(harbour: Harbour) -> None:
    (harbour.path / "target/link").symlink_to(harbour.outside / "a.txt")
    with adversary(harbour.path / "target/a.txt", harbour.path / "target/link"):
        harbour.run([harbour.read, harbour.read, harbour.read, harbour.write])
    harbour.check_outside()


def test_the_walk_of_older_systems_lets_nothing_out_either(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "open_beneath", beneath.walk_beneath)
    (harbour.path / "link").symlink_to(harbour.outside)
    with adversary(harbour.path / "target", harbour.path / "link"):
        harbour.run([harbour.read, harbour.read, harbour.write, harbour.create])
    harbour.check_outside()
