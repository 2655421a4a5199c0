"""The argument vector of git: what is always there, and the trailer of a commit."""

from __future__ import annotations

from moorage.workspace.git.call import TRAILER, VARIABLES, candidates_argv
from moorage.workspace.git.rules import plan_call


def test_no_pager_lock_prompt_or_monitor_can_get_in_the_way() -> None:
    argv = plan_call("log", ("-p",)).argv("/usr/bin/git")
    assert argv[0] == "/usr/bin/git"
    before = argv[: argv.index("log")]
    assert {"--no-pager", "--no-optional-locks", "core.fsmonitor=false"} <= set(before)
    assert argv[argv.index("log") :] == ("log", "--no-ext-diff", "--no-textconv", "-p")
    assert VARIABLES["GIT_TERMINAL_PROMPT"] == "0"
    assert VARIABLES["GIT_PAGER"] == "cat"


def test_the_trailer_is_the_last_paragraph_of_a_new_commit_only() -> None:
    new = plan_call("commit", ("-m", "x")).argv(trailer=TRAILER)
    assert new[-2:] == ("--message=x", f"--message={TRAILER}")
    amended = plan_call("commit", ("--amend", "-m", "x")).argv(trailer=TRAILER)
    assert amended[-1] == "--message=x"
    assert TRAILER not in plan_call("log", ()).argv(trailer=TRAILER)
    assert plan_call("commit", ("-m", "x")).argv()[-1] == "--message=x"


def test_what_an_add_would_stage_is_listed_by_plain_paths() -> None:
    argv = candidates_argv(("a*", "-b"), "git")
    assert argv[-3:] == ("--", "a*", "-b")
    assert {"--literal-pathspecs", "-z", "ls-files"} <= set(argv)
