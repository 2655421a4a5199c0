"""Calls of git that read: what is allowed, and every way out that is not."""

from __future__ import annotations

import pytest

from moorage.errors import Refused
from moorage.workspace.git.reading import READ_COMMANDS, outside_paths, plan_reading

ROOT = "/work/tree"


@pytest.mark.parametrize("subcommand", sorted(READ_COMMANDS - {"stash"}))
def test_every_reading_command_is_allowed_without_arguments(subcommand: str) -> None:
    assert plan_reading(subcommand, ()).effect == "read"


@pytest.mark.parametrize(
    "option",
    [
        "--output=x",
        "--outp=x",
        "--output-directory",
        "--ext-diff",
        "--ext",
        "--textconv",
        "--textc",
        "--no-index",
        "--no-i",
        "--exec-path=/x",
        "--git-dir=/x",
        "--work-tree=/x",
        "--open-files-in-pager",
        "--upload-pack=x",
        "--receive-pack=x",
        "--contents=/etc/passwd",
        "--pathspec-from-file=x",
        "--exclude-from=x",
        "--paginate",
        "--filters",
        "--force",
        "--interactive",
        "--no-verify",
        "--allow-empty",
        "-c",
        "-ccore.pager=x",
    ],
)
@pytest.mark.parametrize("subcommand", ["diff", "log", "show", "blame", "ls-files", "status"])
def test_options_that_do_more_than_read_are_refused(subcommand: str, option: str) -> None:
    with pytest.raises(Refused, match="is not allowed") as caught:
        plan_reading(subcommand, ("HEAD", option))
    assert caught.value.reason == "git_not_allowed"


@pytest.mark.parametrize(
    "option",
    ["--all", "--text", "--exclude=x", "--author=me", "--no-ext-diff", "--format=%h", "-p", "-C"],
)
def test_harmless_options_pass(option: str) -> None:
    assert option in plan_reading("log", (option,)).arguments


def test_what_follows_the_two_dashes_is_a_path() -> None:
    assert plan_reading("log", ("--", "--output")).arguments == ("--", "--output")


def test_only_rev_parse_may_ask_for_the_git_folder() -> None:
    assert plan_reading("rev-parse", ("--git-dir",)).arguments == ("--git-dir",)
    with pytest.raises(Refused):
        plan_reading("rev-parse", ("--git-dir=/x",))


@pytest.mark.parametrize(
    ("subcommand", "arguments"),
    [
        ("branch", ("new",)),
        ("branch", ("-d", "old")),
        ("branch", ("-D", "old")),
        ("branch", ("-m", "old", "new")),
        ("branch", ("-vd", "old")),
        ("branch", ("--abbrev", "new")),
        ("branch", ("--set-upstream-to=x",)),
        ("branch", ("--", "new")),
        ("tag", ("v1",)),
        ("tag", ("-a", "v1", "-m", "x")),
        ("tag", ("-d", "v1")),
        ("tag", ("-f", "-l")),
        ("remote", ("add", "x", "url")),
        ("remote", ("-v", "update")),
        ("remote", ("set-url", "x", "y")),
        ("stash", ()),
        ("stash", ("pop",)),
        ("stash", ("push",)),
        ("stash", ("-p", "list")),
    ],
)
def test_commands_that_also_write_are_refused_in_their_writing_forms(
    subcommand: str, arguments: tuple[str, ...]
) -> None:
    with pytest.raises(Refused, match="reading forms") as caught:
        plan_reading(subcommand, arguments)
    assert caught.value.reason == "git_not_allowed"


@pytest.mark.parametrize(
    ("subcommand", "arguments"),
    [
        ("branch", ("-a",)),
        ("branch", ("-avv",)),
        ("branch", ("--list", "feature/*")),
        ("branch", ("--contains", "HEAD~2")),
        ("branch", ("--sort=-committerdate", "--format=%(refname)")),
        ("tag", ("-l", "v1.*")),
        ("tag", ("-n5",)),
        ("tag", ("--points-at", "HEAD")),
        ("remote", ("-v",)),
        ("remote", ("get-url", "origin")),
        ("stash", ("list",)),
        ("stash", ("show", "-p", "stash@{0}")),
    ],
)
def test_their_reading_forms_pass(subcommand: str, arguments: tuple[str, ...]) -> None:
    assert plan_reading(subcommand, arguments).arguments == arguments


def test_a_sort_key_with_a_dash_is_no_option() -> None:
    assert plan_reading("branch", ("--sort", "-committerdate")).arguments == (
        "--sort=-committerdate",
    )
    with pytest.raises(Refused):
        plan_reading("branch", ("-committerdate",))


def test_a_shortlog_never_reads_its_input() -> None:
    assert plan_reading("shortlog", ("-sn",)).arguments == ("-sn", "HEAD")
    assert plan_reading("shortlog", ("v1..v2",)).arguments == ("v1..v2",)


def test_how_a_status_is_printed_is_fixed() -> None:
    call = plan_reading("status", ("--short", "-b", "--porcelain=v1", "-z", "-uno", "src"))
    assert call.arguments == ("-uno", "src")
    assert "--porcelain=v2" in call.argv()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("/etc/passwd", "/etc/hosts"), ["/etc/passwd", "/etc/hosts"]),
        (("--", "../other"), ["../other"]),
        (("a/../../b",), ["a/../../b"]),
        (("..",), [".."]),
        (("a/../b", "main..dev", "HEAD:../x", "/work/tree/a", "/shared/b"), []),
        (("--grep", "/api/v1", "-S", "../x"), []),
        (("-L1,5:/etc/passwd",), []),
    ],
)
def test_paths_outside_the_folders_are_found(
    arguments: tuple[str, ...], expected: list[str]
) -> None:
    call = plan_reading("log", arguments)
    assert outside_paths(call, (ROOT, "/shared"), ROOT) == expected
