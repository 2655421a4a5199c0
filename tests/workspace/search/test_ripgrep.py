"""What ripgrep is told."""

from __future__ import annotations

import pytest

from moorage.workspace.search.ripgrep import Ripgrep, without_needless_escapes
from moorage.workspace.search.selection import Include, Query, SearchPlace

FOLDER = SearchPlace(fd=-1, absolute="/w", excluded=("own [x]",))
FILE = SearchPlace(fd=-1, absolute="/w/f", is_file=True)


def test_a_search_reads_no_configuration_and_includes_hidden_files() -> None:
    query = Query(pattern="--foo", include=Include("*.py"), ignore_case=True)
    argv = Ripgrep("/usr/bin/rg").count_argv(FOLDER, query)
    assert {"--no-config", "--hidden", "--no-follow", "--null", "--ignore-case"} <= set(argv)
    assert {"--glob=!.git", "--glob=!vendor/", r"--glob=!/own \[x\]"} <= set(argv)
    assert {"--type-add=wanted:*.py", "--type=wanted"} <= set(argv)
    assert argv[-4:] == ("-e", "--foo", "--", "./")


def test_a_file_is_searched_as_input_and_lines_are_read_from_named_files() -> None:
    rg, query = Ripgrep("rg"), Query(pattern="x")
    assert rg.count_argv(FILE, query)[-1] == "-"
    assert rg.lines_argv(FILE, query, paths=[b"f"], most=2)[-1] == "-"
    argv = rg.lines_argv(FOLDER, query, paths=[b"-a", b"b"], most=2)
    assert argv[-3:] == ("--", "./-a", "./b")
    assert "--max-count=2" in argv
    assert rg.files_argv(FOLDER)[-2:] == ("--", "./")


def test_a_long_pattern_is_not_printed_again() -> None:
    reason = Ripgrep("rg").reason
    text = "regex parse error:\n    (%s\n    ^\nerror: unclosed group"
    assert reason((text % "a").encode()) == text % "a"
    assert reason((text % ("a" * 5000)).encode()) == "error: unclosed group"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"a\/b\"c\'d\,\@\%\!\:\;\=\_", "a/b\"c'd,@%!:;=_"),
        (r"\.\*\+\?\(\)\|\[\]\{\}\^\$\#\&\-\~", r"\.\*\+\?\(\)\|\[\]\{\}\^\$\#\&\-\~"),
        (r"\\/", r"\\/"),
        (r"\w\d\b\<\>\ ", r"\w\d\b\<\>\ "),
        ("a\\", "a\\"),
    ],
)
def test_backslashes_that_mean_nothing_are_left_out(pattern: str, expected: str) -> None:
    assert without_needless_escapes(pattern) == expected
