"""Calls of git that write: named files and a message, nothing else."""

from __future__ import annotations

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.workspace.git.writing import plan_add, plan_commit, plan_restore


def test_files_are_staged_by_their_paths() -> None:
    call = plan_add(("-v", "a", "b c", "--", "-odd"))
    assert call.arguments == ("--", "a", "b c", "-odd")
    assert (call.paths, call.effect) == (("a", "b c", "-odd"), "write")
    assert "--literal-pathspecs" in call.argv()


@pytest.mark.parametrize(
    "arguments",
    [
        ("-A",),
        ("--all",),
        (".",),
        ("./",),
        ("a/..",),
        ("/",),
        ("-u",),
        ("-p", "a"),
        ("-i",),
        ("-e",),
        ("-f", "a"),
        ("--force", "a"),
        ("-N", "a"),
        ("--pathspec-from-file=x",),
        (":/",),
        (":(glob)**",),
        ("",),
    ],
)
def test_anything_but_named_files_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as caught:
        plan_add(arguments)
    assert caught.value.reason == "git_not_allowed"


@pytest.mark.parametrize("arguments", [(), ("--",), ("-v",)])
def test_no_file_is_an_argument_error(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArguments, match="names no file"):
        plan_add(arguments)


@pytest.mark.parametrize("switch", ["--staged", "-S"])
def test_files_are_taken_off_the_index(switch: str) -> None:
    assert plan_restore((switch, "a")).arguments == ("--staged", "--", "a")


@pytest.mark.parametrize(
    "arguments",
    [("a",), ("--staged", "--worktree", "a"), ("-S", "-W", "a"), ("--staged", "--source=x", "a")],
)
def test_a_restore_that_would_change_files_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(Refused):
        plan_restore(arguments)


@pytest.mark.parametrize("arguments", [("-m", "x"), ("-mx",), ("--message", "x"), ("--message=x",)])
def test_a_message_can_be_given_in_every_way(arguments: tuple[str, ...]) -> None:
    assert plan_commit(arguments).arguments == ("--message=x",)


def test_switches_come_before_messages() -> None:
    call = plan_commit(("-m", "x", "--signoff", "-q"))
    assert call.arguments == ("--signoff", "-q", "--message=x")


def test_the_old_message_may_be_kept_in_an_amendment_only() -> None:
    assert plan_commit(("--amend", "--no-edit")).is_amendment
    with pytest.raises(InvalidArguments):
        plan_commit(("--no-edit",))


def test_a_message_is_no_switch() -> None:
    assert not plan_commit(("-m", "--amend")).is_amendment


@pytest.mark.parametrize("arguments", [(), ("-m",), ("-m", " "), ("--message=",), ("--amend",)])
def test_no_message_is_an_argument_error(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArguments, match="needs a message"):
        plan_commit(arguments)


@pytest.mark.parametrize(
    "word",
    [
        "-a",
        "-am",
        "--all",
        "--no-verify",
        "-n",
        "--author=x",
        "--allow-empty",
        "--allow-empty-message",
        "-F",
        "--file=x",
        "-e",
        "--edit",
        "-c",
        "-C",
        "--date=x",
        "--gpg-sign",
        "-S",
        "-p",
        "--",
        "a.txt",
        "--fixup=x",
        "--trailer=x",
        "--mess=x",
    ],
)
def test_anything_else_is_refused(word: str) -> None:
    with pytest.raises(Refused) as caught:
        plan_commit(("-m", "x", word))
    assert caught.value.reason == "git_not_allowed"
