"""``git``: reads, explicit writes, what is refused, and that nothing hangs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.tools.git import Git
from moorage.tools.git_view import GitLimits

pytestmark = [pytest.mark.needs("git", "landlock")]
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


@pytest.fixture
def repository(desk):
    run_git(desk.path, "init", "-q", "-b", "main")
    run_git(desk.path, "config", "user.name", "Test")
    run_git(desk.path, "config", "user.email", "test@example.invalid")
    desk.write("a.txt", "one\n")
    desk.write("b.txt", "two\n")
    run_git(desk.path, "add", "a.txt", "b.txt")
    run_git(desk.path, "commit", "-q", "-m", "First")
    return desk


async def call(desk, subcommand: str, *args: str, **more: Any):
    return await desk.call("git", subcommand=subcommand, args=list(args), **more)


async def data(desk, subcommand: str, *args: str, **more: Any) -> dict[str, Any]:
    return await desk.data("git", subcommand=subcommand, args=list(args), **more)


async def test_status_tells_staged_unstaged_and_untracked_apart(repository) -> None:
    repository.write("a.txt", "changed\n")
    run_git(repository.path, "add", "a.txt")
    repository.write("a.txt", "changed again\n")
    run_git(repository.path, "rm", "-q", "--cached", "b.txt")
    repository.write("with space \u00e9.txt")
    status = (await data(repository, "status"))["status"]
    assert (status["branch"], len(status["head"])) == ("main", 40)
    assert list(status["staged"]) == [
        {"path": "a.txt", "change": "modified"},
        {"path": "b.txt", "change": "deleted"},
    ]
    assert list(status["unstaged"]) == [{"path": "a.txt", "change": "modified"}]
    assert list(status["untracked"]) == ["b.txt", "with space \u00e9.txt"]


async def test_the_view_of_a_status_is_one_line_for_each_file(repository) -> None:
    run_git(repository.path, "mv", "a.txt", "moved.txt")
    repository.write("new")
    result = await call(repository, "status", "--short", "--branch")
    assert result.text == ("On branch main\nStaged:\n  R  a.txt -> moved.txt\nUntracked:\n  ?  new")
    run_git(repository.path, "reset", "-q", "--hard")
    (repository.path / "new").unlink()
    assert (await call(repository, "status")).text == "On branch main\nNothing differs."


@pytest.mark.parametrize(
    ("subcommand", "args", "expected"),
    [
        ("log", ("--oneline",), "First"),
        ("log", ("-n", "1", "--format=%s"), "First"),
        ("show", ("HEAD:a.txt",), "one"),
        ("show", ("--stat",), "a.txt"),
        ("blame", ("a.txt",), "one"),
        ("branch", (), "main"),
        ("branch", ("-av",), "First"),
        ("branch", ("--list", "ma*"), "main"),
        ("tag", ("-l",), "(no output)"),
        ("rev-parse", ("--abbrev-ref", "HEAD"), "main"),
        ("rev-parse", ("--git-dir",), ".git"),
        ("ls-files", ("--", "*.txt"), "b.txt"),
        ("ls-tree", ("HEAD",), "blob"),
        ("cat-file", ("-t", "HEAD"), "commit"),
        ("describe", ("--always",), ""),
        ("shortlog", ("-s",), "Test"),
        ("stash", ("list",), "(no output)"),
        ("remote", ("-v",), "(no output)"),
        ("diff", ("HEAD",), "(no output)"),
    ],
)
@pytest.mark.parametrize("mode", list(PermissionMode))
async def test_reading_works_in_every_mode(
    repository, subcommand: str, args: tuple[str, ...], expected: str, mode: PermissionMode
) -> None:
    result = await call(repository, subcommand, *args, mode=mode)
    assert not result.is_error, result.text
    assert expected in result.text
    assert result.structured_content["exit_code"] == 0


async def test_a_difference_is_no_error(repository) -> None:
    repository.write("a.txt", "changed\n")
    result = await call(repository, "diff", "--exit-code")
    assert not result.is_error
    assert result.structured_content["exit_code"] == 1
    assert "+changed" in result.text


async def test_what_git_cannot_do_is_an_ordinary_error_in_its_own_words(repository) -> None:
    result = await call(repository, "show", "no-such-revision")
    assert result.is_error
    assert result.structured_content["error_kind"] == "git_failed"
    assert result.structured_content["exit_code"] == 128
    assert "no-such-revision" in result.text


async def test_outside_a_repository_git_says_so(desk) -> None:
    result = await call(desk, "status")
    assert result.is_error
    assert "not a git repository" in result.text


async def test_add_and_commit_of_named_files(repository) -> None:
    repository.write("new.txt", "new\n")
    repository.write("other.txt", "other\n")
    await data(repository, "add", "new.txt")
    await data(repository, "commit", "-m", "Second")
    assert run_git(repository.path, "show", "--format=%B", "--name-only").split() == [
        "Second",
        "new.txt",
    ]
    assert run_git(repository.path, "status", "--porcelain") == "?? other.txt\n"


async def test_a_commit_names_its_helper_when_attribution_is_on(repository) -> None:
    repository.git_attribution = True
    repository.write("a.txt", "more\n")
    await data(repository, "add", "a.txt")
    await data(repository, "commit", "-m", "Second")
    body = run_git(repository.path, "log", "-1", "--format=%B")
    assert body.strip().split("\n\n") == [
        "Second",
        "Co-authored-by: Moorage <agent@moorage.invalid>",
    ]
    await data(repository, "commit", "--amend", "-m", "Better")
    assert "Co-authored-by" not in run_git(repository.path, "log", "-1", "--format=%B")


async def test_a_commit_without_attribution_has_its_message_alone(repository) -> None:
    repository.write("a.txt", "more\n")
    await data(repository, "add", "a.txt")
    await data(repository, "commit", "--message=Second", "-mDetails")
    assert run_git(repository.path, "log", "-1", "--format=%B").strip() == "Second\n\nDetails"


async def test_a_file_is_taken_off_the_index_and_keeps_its_content(repository) -> None:
    repository.write("a.txt", "more\n")
    await data(repository, "add", "a.txt")
    await data(repository, "restore", "--staged", "a.txt")
    assert run_git(repository.path, "status", "--porcelain") == " M a.txt\n"


@pytest.mark.parametrize("args", [("add", "a.txt"), ("restore", "--staged", "a.txt")])
@pytest.mark.parametrize("mode", [PermissionMode.READ_ONLY])
async def test_read_only_refuses_to_write(repository, args: tuple[str, ...], mode) -> None:
    with pytest.raises(Refused, match="read_only") as caught:
        await call(repository, *args, mode=mode)
    assert caught.value.reason == "boundary_denied"


async def test_read_only_refuses_a_commit(repository) -> None:
    with pytest.raises(Refused) as caught:
        await call(repository, "commit", "-m", "x", mode=PermissionMode.READ_ONLY)
    assert caught.value.reason == "boundary_denied"


async def test_a_commit_without_message_is_an_argument_error_and_no_editor(repository) -> None:
    for args in ((), ("-m", " "), ("-m",), ("--amend",)):
        with pytest.raises(InvalidArguments, match="message"):
            await call(repository, "commit", *args)


async def test_protected_files_cannot_be_staged_by_name_nor_in_a_folder(repository) -> None:
    repository.write("conf/.env", "SECRET=1\n")
    repository.write("conf/ok.txt", "ok\n")
    for path in ("conf/.env", "conf", "./conf/"):
        with pytest.raises(Refused, match=r"conf/\.env") as caught:
            await call(repository, "add", path)
        assert caught.value.reason == "protected_path"
    assert run_git(repository.path, "diff", "--cached", "--name-only") == ""
    await data(repository, "add", "conf/ok.txt")


async def test_more_names_than_can_be_looked_through_are_not_staged(repository) -> None:
    repository.use(Git(GitLimits(listing_bytes=20)))
    for number in range(5):
        repository.write(f"many/{number}.txt", "new\n")
    with pytest.raises(Refused, match="more files than can be looked through"):
        await call(repository, "add", "many")
    assert run_git(repository.path, "diff", "--cached", "--name-only") == ""
    await data(repository, "add", "many/1.txt")


async def test_a_deleted_file_can_be_staged(repository) -> None:
    (repository.path / "a.txt").unlink()
    await data(repository, "add", "a.txt")
    assert run_git(repository.path, "status", "--porcelain") == "D  a.txt\n"


async def test_a_name_with_wildcards_is_that_name(repository) -> None:
    repository.write("*.txt", "star\n")
    repository.write("a.txt", "more\n")
    await data(repository, "add", "*.txt")
    assert run_git(repository.path, "diff", "--cached", "--name-only") == "*.txt\n"


async def test_a_path_outside_the_workspace_is_refused(repository) -> None:
    (repository.outside / "x").write_text("outside\n")
    repository.link("out", repository.outside)
    for subcommand, *args in (
        ("add", "../outside/x"),
        ("add", str(repository.outside / "x")),
        ("add", "out/x"),
        ("diff", "/etc/passwd", "/etc/hosts"),
        ("diff", "--", "../outside/x", "a.txt"),
        ("blame", "../outside/x"),
    ):
        with pytest.raises(Refused, match="outside the workspace") as caught:
            await call(repository, subcommand, *args)
        assert caught.value.reason == "boundary_denied"


async def test_no_pager_can_hang_it(repository) -> None:
    run_git(repository.path, "config", "core.pager", "less")
    run_git(repository.path, "config", "pager.log", "less")
    repository.variables = {"GIT_PAGER": "less", "PAGER": "less", "LESS": ""}
    for number in range(60):
        run_git(repository.path, "commit", "-q", "--allow-empty", "-m", f"Commit {number}")
    result = await call(repository, "log")
    assert "Commit 59" in result.text


async def test_programs_of_the_configuration_are_not_started_by_a_look(repository) -> None:
    proof = repository.path / "ran"
    program = repository.write("program", f"#!/bin/sh\ntouch {proof}\n")
    program.chmod(0o755)
    repository.write(".gitattributes", "*.txt diff=custom\n")
    for key in ("core.fsmonitor", "diff.external", "diff.custom.textconv", "core.pager"):
        run_git(repository.path, "config", key, str(program))
    repository.write("a.txt", "changed\n")
    for args in (("status",), ("diff",), ("log", "-p"), ("show",)):
        await data(repository, *args)
    assert not proof.exists()


async def test_hooks_run_confined(repository) -> None:
    hook = repository.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    proof = repository.outside / "escaped"
    hook.write_text(f"#!/bin/sh\ntouch {proof} || echo denied\necho hooked > ran\n")
    hook.chmod(0o755)
    repository.write("a.txt", "more\n")
    await data(repository, "add", "a.txt")
    await data(repository, "commit", "-m", "Second")
    assert (repository.path / "ran").read_text() == "hooked\n"
    assert not proof.exists()


async def test_a_hook_that_leaves_a_child_behind_does_not_hold_the_call(repository) -> None:
    hook = repository.path / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsleep 60 &\n")
    hook.chmod(0o755)
    repository.write("a.txt", "more\n")
    await data(repository, "add", "a.txt")
    await data(repository, "commit", "-m", "Second")


async def test_a_call_that_takes_too_long_is_ended(repository) -> None:
    hook = repository.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nsleep 60\n")
    hook.chmod(0o755)
    repository.use(Git(GitLimits(timeout_seconds=0.5)))
    repository.write("a.txt", "more\n")
    await data(repository, "add", "a.txt")
    result = await call(repository, "commit", "-m", "Second")
    assert result.is_error
    assert result.structured_content["error_kind"] == "timed_out"
    assert run_git(repository.path, "log", "--format=%s") == "First\n"


async def test_a_denial_says_what_the_user_can_do(desk) -> None:
    main = desk.outside / "main"
    main.mkdir()
    run_git(main, "init", "-q", "-b", "main")
    run_git(main, "commit", "-q", "--allow-empty", "-m", "First")
    run_git(main, "worktree", "add", "-q", "-b", "work", str(desk.path / "tree"))
    for path in list((desk.path / "tree").iterdir()):
        path.rename(desk.path / path.name)
    desk.write("new", "x")
    result = await call(desk, "add", "new")
    assert result.is_error
    assert result.structured_content["error_kind"] == "boundary_denied"
    assert "--writable DIR" in result.text


async def test_output_is_cut_by_lines_and_counted(repository) -> None:
    repository.use(Git(GitLimits(output_bytes=20_000)))
    repository.write("a.txt", "".join(f"line {number}\n" for number in range(20_000)))
    result = await call(repository, "diff")
    facts = result.structured_content
    assert facts["truncated"]
    assert facts["output"].endswith("\n")
    assert len(facts["output"]) <= 20_000 < facts["output_bytes"]
    assert len(result.text.encode()) <= 8192
    assert "bytes are not shown" in result.text.split("\n")[-1]


async def test_output_within_the_bound_is_whole_data_and_a_shorter_view(repository) -> None:
    repository.write("a.txt", "".join(f"line {number}\n" for number in range(2000)))
    result = await call(repository, "diff")
    facts = result.structured_content
    assert not facts["truncated"]
    assert facts["output_bytes"] == len(facts["output"])
    assert "+line 1999" in facts["output"]
    assert len(result.text.encode()) <= 8192


async def test_secrets_in_the_output_are_masked(repository) -> None:
    repository.write("a.txt", "api_key=abcdefgh12345678\n")
    result = await call(repository, "diff")
    assert "abcdefgh12345678" not in result.text + str(result.structured_content)
    assert "api_key=[REDACTED]" in result.text


async def test_a_missing_git_is_one_clear_sentence(desk) -> None:
    desk.variables = {"PATH": "/no/programs/here"}
    result = await call(desk, "status")
    assert result.structured_content["error_kind"] == "git_missing"


async def test_nothing_is_read_from_the_terminal_or_asked(repository) -> None:
    assert (await call(repository, "cat-file", "--batch")).text == "(no output)"
    assert "Test" in (await call(repository, "shortlog", "-sn")).text


async def test_a_status_does_not_take_the_index_lock(repository) -> None:
    index = repository.path / ".git" / "index"
    before = index.read_bytes()
    # Other times, the same content: git notes that in the index whenever it may.
    os.utime(repository.path / "a.txt", (1, 1))
    assert (await data(repository, "status"))["status"]["unstaged"] == ()
    assert index.read_bytes() == before
    run_git(repository.path, "status")
    assert index.read_bytes() != before
