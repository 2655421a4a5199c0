"""A session in a worktree of Git stays in that checkout and never falls back to the main tree."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

import moorage
from moorage.errors import ConfigError, InvalidArguments, Refused, ToolFailed

Opener = Callable[..., AbstractAsyncContextManager[moorage.Session]]

pytestmark = pytest.mark.needs("git", "landlock")
IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")


def run_git(folder: Path, *arguments: str) -> str:
    """Run git directly, to prepare and to check."""
    command = ("git", *IDENTITY, *arguments)
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        output, _ = child.communicate(timeout=20)
    assert child.returncode == 0, output
    return output


class Trees(NamedTuple):
    """The main tree of a repository, and a checkout of a branch of its own."""

    main: Path
    checkout: Path

    def add_checkout(self) -> None:
        run_git(self.main, "worktree", "add", "-q", "-B", "work", str(self.checkout))
        (self.checkout / "a.txt").write_text("of the checkout\n")

    def remove_checkout(self) -> None:
        run_git(self.main, "worktree", "remove", "--force", str(self.checkout))
        assert not self.checkout.exists()

    def state_of_main(self) -> tuple[str, str, str]:
        excluded = ("--untracked-files=all", "--porcelain", "--", ".", ":!trees")
        return (
            run_git(self.main, "status", *excluded),
            run_git(self.main, "rev-parse", "main"),
            (self.main / "sub" / "b.txt").read_text(),
        )


@pytest.fixture(params=["main-work", "main/trees/work"], ids=["beside it", "inside it"])
def trees(tmp_path: Path, request: pytest.FixtureRequest) -> Trees:
    trees = Trees(tmp_path / "main", tmp_path / request.param)
    (trees.main / "sub").mkdir(parents=True)
    run_git(trees.main, "init", "-q", "-b", "main")
    for name in ("user.name", "user.email"):
        run_git(trees.main, "config", name, "test@example.invalid")
    (trees.main / "a.txt").write_text("of the main tree\n")
    (trees.main / "sub" / "b.txt").write_text("b\n")
    run_git(trees.main, "add", ".")
    run_git(trees.main, "commit", "-q", "-m", "First")
    trees.add_checkout()
    return trees


@pytest.fixture
def open_checkout(open_here: Opener, trees: Trees) -> Opener:
    def open_one(**options: object) -> AbstractAsyncContextManager[moorage.Session]:
        return open_here(**{"workspace": trees.checkout} | options)

    return open_one


async def test_every_path_and_folder_is_one_of_the_checkout(
    open_checkout: Opener, trees: Trees
) -> None:
    before = trees.state_of_main()
    with anyio.fail_after(50):
        async with open_checkout() as session:
            for cwd, folder in (("", ""), ("sub", "/sub"), (str(trees.checkout / "sub"), "/sub")):
                ran = await session.run("pwd; git rev-parse --show-toplevel", cwd=cwd)
                assert ran.stdout.split() == [f"{trees.checkout}{folder}", str(trees.checkout)]
            for path in ("a.txt", "sub/../a.txt", str(trees.checkout / "a.txt")):
                assert (await session.read_file(path)).text == "of the checkout\n"
            await session.write_file("new.txt", "new\n")
            await session.edit_file("sub/b.txt", "b", "edited")
            assert "new.txt" in (await session.list_files()).text
            assert "new.txt" in (await session.glob("*.txt")).text
            found = (await session.grep("of the")).text
            assert "of the checkout" in found
            assert "main tree" not in found
            status = (await session.git("status")).structured_content
    assert status is not None
    assert status["status"]["branch"] == "work"
    assert (trees.checkout / "new.txt").exists()
    assert (trees.checkout / "sub" / "b.txt").read_text() == "edited\n"
    assert trees.state_of_main() == before


async def test_the_main_tree_is_outside(open_checkout: Opener, trees: Trees) -> None:
    before = trees.state_of_main()
    with anyio.fail_after(50):
        async with open_checkout() as session:
            for path in (trees.main / "a.txt", trees.main / ".git" / "config"):
                with pytest.raises(Refused):
                    await session.read_file(str(path))
                with pytest.raises(Refused):
                    await session.write_file(str(path), "written")
            with pytest.raises(Refused):
                await session.run("touch ran", cwd=str(trees.main))
            ran = await session.run(f"echo written > {trees.main}/a.txt")
            assert ran.exit_code != 0
    assert trees.state_of_main() == before


async def test_a_commit_needs_the_repository_of_the_main_tree_as_a_writable_root(
    open_checkout: Opener, trees: Trees
) -> None:
    before = trees.state_of_main()
    commit = "git commit -q -a -m Second"
    with anyio.fail_after(50):
        async with open_checkout() as session:
            denied = await session.run(commit)
            assert denied.exit_code != 0
            assert denied.envelope["sandbox"]["denied"]
            with pytest.raises(ToolFailed, match="--writable DIR"):
                await session.git("add", "a.txt")
        async with open_checkout(writable_roots=[trees.main / ".git"]) as session:
            assert (await session.run(commit)).exit_code == 0
            with pytest.raises(Refused, match="protected"):
                await session.write_file(str(trees.main / ".git" / "hooks" / "pre-push"), "")
            await session.write_file("new.txt", "new\n")
            await session.git("add", "new.txt")
            await session.git("commit", "-m", "Third")
    assert run_git(trees.main, "log", "--format=%s", "work").split() == ["Third", "Second", "First"]
    assert trees.state_of_main() == before


async def test_a_checkout_that_is_gone_is_told_and_nothing_takes_its_place(
    open_checkout: Opener, trees: Trees
) -> None:
    before = trees.state_of_main()
    with anyio.fail_after(50):
        async with open_checkout() as session:
            assert (await session.run("pwd")).stdout.strip() == str(trees.checkout)
            trees.remove_checkout()
            for cwd in ("", "sub", str(trees.checkout)):
                with pytest.raises(InvalidArguments, match="itself is missing"):
                    await session.run("touch ran", cwd=cwd)
            for call in (session.read_file("a.txt"), session.write_file("ran", "x")):
                with pytest.raises(ToolFailed, match="itself is missing"):
                    await call
            with pytest.raises((InvalidArguments, ToolFailed), match="missing"):
                await session.git("status")
            assert trees.state_of_main() == before
            assert not trees.checkout.exists()
            trees.add_checkout()
            ran = await session.run("pwd; cat a.txt")
            assert ran.stdout.splitlines() == [str(trees.checkout), "of the checkout"]
            saved = session.id
        trees.remove_checkout()
        for options in ({}, {"session_id": saved, "workspace": None}):
            with pytest.raises((ConfigError, moorage.ProvisionError), match=trees.checkout.name):
                async with open_checkout(**options) as session:
                    await session.run("touch ran")
    assert trees.state_of_main() == before
    assert not trees.checkout.exists()
