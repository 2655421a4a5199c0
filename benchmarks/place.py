"""Where the measurements happen: a temporary home, a Git repository and a large tree."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import moorage
from moorage.host.session import Session

FILES_IN_REPOSITORY = 5_000
FILES_IN_LARGE_TREE = 50_000
FILES_PER_FOLDER = 100
NEEDLE = "needle_in_the_tree"
NEEDLE_EVERY = 1_000


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders of one run. The trees are made when first asked for."""

    root: Path
    is_quick: bool = False
    """Whether the measurements that take minutes are to be short."""

    @property
    def home(self) -> Path:
        """Return Moorage's home of this run."""
        return self.root / "home"

    @property
    def repository(self) -> Path:
        """Return a Git repository of 5,000 committed files."""
        return _tree(self.root / "repository", FILES_IN_REPOSITORY, is_committed=True)

    @property
    def large_tree(self) -> Path:
        """Return a folder of 50,000 files, a few of which hold the needle."""
        return _tree(self.root / "large", FILES_IN_LARGE_TREE, is_committed=False)

    @asynccontextmanager
    async def session(self, workspace: Path | None = None) -> AsyncIterator[Session]:
        """Open a session of the local backend in standard mode, in the repository by default."""
        async with moorage.open_session(
            workspace=workspace or self.repository, home=self.home
        ) as session:
            yield session


@contextmanager
def temporary_place(*, is_quick: bool = False) -> Iterator[Place]:
    """Make the folders of one run and remove them afterwards."""
    with TemporaryDirectory(prefix="moorage-bench-") as folder:
        yield Place(Path(folder).resolve(), is_quick)


async def timed(action: Callable[[], Awaitable[object]]) -> float:
    """Return how many seconds an awaited action took."""
    started = time.perf_counter()
    await action()
    return time.perf_counter() - started


def timed_bare(argv: list[str], **options: int) -> float:
    """Return how many seconds a bare ``subprocess`` of ``argv`` took."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, **options)  # type: ignore[call-overload]
    return time.perf_counter() - started


def _tree(folder: Path, count: int, *, is_committed: bool) -> Path:
    if folder.is_dir():
        return folder
    folder.mkdir()
    for number in range(count):
        path = folder / f"part_{number // FILES_PER_FOLDER:03}" / f"module_{number:05}.py"
        path.parent.mkdir(exist_ok=True)
        mark = f"# {NEEDLE}\n" if number % NEEDLE_EVERY == 0 else ""
        path.write_text(f"{mark}def function_{number}(value: int) -> int:\n    return value\n" * 4)
    git = ["git", "-C", str(folder), "-c", "user.name=Bench", "-c", "user.email=bench@example.org"]
    subprocess.run(
        [*git, "init", "--quiet"], check=True, env={**os.environ, "GIT_TEMPLATE_DIR": ""}
    )
    if is_committed:
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", "Begin"], check=True)
    return folder
