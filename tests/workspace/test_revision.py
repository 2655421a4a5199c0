from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from moorage.confine.nursery import Nursery, start_nursery
from moorage.confine.plan import Plan
from moorage.errors import EnvironmentDied
from moorage.policy.permission import PermissionMode
from moorage.process.spec import ProgramSpec
from moorage.process.supervisor import Supervisor
from moorage.workspace.revision import RevisionLimits, workspace_revision


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = start_nursery()
    yield nursery
    nursery.close()


class Tree:
    """A workspace, and its revision."""

    def __init__(self, path: Path, supervisor: Supervisor) -> None:
        self.path = path
        self.supervisor = supervisor
        self.plan = Plan(mode=PermissionMode.UNCONFINED, writable_roots=(str(path),))

    async def revision(self, limits: RevisionLimits | None = None) -> str:
        with anyio.fail_after(10):
            return await workspace_revision(
                self.supervisor, self.plan, str(self.path), limits=limits
            )

    async def run(self, command: str) -> None:
        spec = ProgramSpec(argv=("bash", "-ec", command), plan=self.plan, cwd=str(self.path))
        with anyio.fail_after(10):
            async with self.supervisor.open(spec) as child:
                assert (await child.wait()).exit_code == 0


@pytest.fixture
async def tree(tmp_path: Path, nursery: Nursery) -> AsyncIterator[Tree]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    (tmp_path / "tree").mkdir()
    async with Supervisor(nursery, base_variables=lambda _: variables) as supervisor:
        yield Tree(tmp_path / "tree", supervisor)


INIT = "git init -q; git config user.email a@example.org; git config user.name a"


@pytest.mark.needs("git")
async def test_in_a_repository_it_names_the_commit_and_the_state_of_the_tree(tree: Tree) -> None:
    await tree.run(f"{INIT}; echo one > file; git add file; git commit -qm one")
    first = await tree.revision()
    await tree.run("git rev-parse HEAD > ../head")
    head = (tree.path.parent / "head").read_text()
    assert first.startswith(f"git:{head[:12]}:worktree:")
    assert len(first.rpartition(":")[2]) == 16
    assert await tree.revision() == first
    await tree.run("echo two > file")
    second = await tree.revision()
    await tree.run("echo three, longer > file")
    third = await tree.revision()
    await tree.run("rm file")
    fourth = await tree.revision()
    await tree.run("echo new > 'a new file'")
    assert len({first, second, third, fourth, await tree.revision()}) == 5


@pytest.mark.needs("git")
async def test_a_repository_without_a_commit_has_a_label_too(tree: Tree) -> None:
    await tree.run("git init -q; touch x")
    assert (await tree.revision()).startswith("git:000000000000:worktree:")


@pytest.mark.needs("git")
async def test_a_planted_file_system_monitor_does_not_run(tree: Tree) -> None:
    hook = tree.path.parent / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tree.path.parent}/ran\n")
    hook.chmod(0o755)
    await tree.run(f"{INIT}; git config core.fsmonitor {hook}; touch x")
    await tree.revision()
    assert not (tree.path.parent / "ran").exists()


@pytest.mark.needs("git")
async def test_a_status_that_is_too_long_has_no_label(tree: Tree) -> None:
    await tree.run("git init -q; touch file-with-a-long-name")
    assert await tree.revision(RevisionLimits(status_bytes=10)) == ""


async def test_git_that_takes_too_long_gives_no_label(tree: Tree) -> None:
    await tree.run("mkdir bin; printf '#!/bin/sh\\nsleep 60\\n' > bin/git; chmod +x bin/git")
    path = f"{tree.path}/bin:{os.environ['PATH']}"
    tree.supervisor.set_base_variables(tree.plan, {"PATH": path, "HOME": "/"})
    assert await tree.revision(RevisionLimits(git_seconds=0.1)) == ""


async def test_without_a_repository_it_hashes_names_contents_and_links(tree: Tree) -> None:
    (tree.path / "folder").mkdir()
    (tree.path / "folder" / "file").write_text("one")
    (tree.path / "link").symlink_to("/etc/passwd")
    labels = {await tree.revision()}
    assert next(iter(labels)).startswith("fs:worktree:")
    assert await tree.revision() in labels
    (tree.path / "folder" / "file").write_text("two")
    labels.add(await tree.revision())
    (tree.path / "folder" / "file").chmod(0o755)
    labels.add(await tree.revision())
    (tree.path / "folder" / "file").rename(tree.path / "folder" / "other")
    labels.add(await tree.revision())
    (tree.path / "link").unlink()
    (tree.path / "link").symlink_to("/etc/group")
    labels.add(await tree.revision())
    assert len(labels) == 5
    assert "" not in labels


async def test_a_tree_of_any_depth_has_a_label(tree: Tree, deep_tree) -> None:
    tree.path = deep_tree.path
    limits = RevisionLimits(walk_seconds=5.0)
    label = await tree.revision(limits)
    assert label.startswith("fs:worktree:")
    (deep_tree.path / "d" / "new").touch()
    assert await tree.revision(limits) not in ("", label)


async def test_special_files_are_named_and_never_opened(tree: Tree) -> None:
    os.mkfifo(tree.path / "fifo")
    assert (await tree.revision()).startswith("fs:worktree:")


@pytest.mark.parametrize(
    "limits",
    [
        RevisionLimits(files=3),
        RevisionLimits(file_bytes=10),
        RevisionLimits(total_bytes=10),
        RevisionLimits(walk_seconds=-1.0),
    ],
)
async def test_a_workspace_beyond_a_bound_has_no_label(tree: Tree, limits: RevisionLimits) -> None:
    for number in range(4):
        (tree.path / f"file-{number}").write_text("some content")
    assert await tree.revision(limits) == ""


async def test_a_workspace_that_is_gone_has_no_label(tree: Tree) -> None:
    tree.path.rmdir()
    assert await tree.revision() == ""


async def test_an_environment_that_dies_meanwhile_gives_no_error(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: ProgramSpec) -> None:
        raise EnvironmentDied("the launcher was lost.")

    monkeypatch.setattr(tree.supervisor, "open", lost)
    assert (await tree.revision()).startswith("fs:worktree:")
