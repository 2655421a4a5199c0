"""Which files a call is about."""

from __future__ import annotations

import pytest

from moorage.workspace.search.selection import (
    Include,
    SearchPlace,
    path_matcher,
    read_include,
    split_pattern,
)


@pytest.mark.parametrize(
    ("text", "name_glob", "is_told"),
    [
        ("*.py", "*.py", True),
        ("*.{ts,tsx}", "*.{ts,tsx}", True),
        ("a:b", "", False),
        ("src/*.py", "*.py", False),
        ("src/**", "", False),
        ("src/", "", False),
        ("{a/b,c}.py", "", False),
        ("src/a:*", "", False),
        ("!*.py", "", False),
    ],
)
def test_ripgrep_is_told_what_it_can_decide(text: str, name_glob: str, is_told: bool) -> None:
    include = read_include(text)
    assert (include.name_glob, include.is_told) == (name_glob, is_told)
    assert include.accepts is not None


@pytest.mark.parametrize("text", [None, ""])
def test_no_include_is_everything(text: str | None) -> None:
    assert read_include(text) == Include()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.py", ("", "**/*.py")),
        ("src/api/*.py", ("src/api", "*.py")),
        ("src/a.py", ("src", "a.py")),
        ("a.py", ("", "a.py")),
        ("./src/**", ("src", "**")),
        ("/src/x*", ("src", "x*")),
        ("src/", ("src", "**")),
        ("a*/b/c", ("", "a*/b/c")),
        ("a//b", ("a", "/b")),
    ],
)
def test_a_pattern_begins_with_plain_folders(pattern: str, expected: tuple[str, str]) -> None:
    assert split_pattern(pattern) == expected


def test_a_path_matches_as_a_whole() -> None:
    matches = path_matcher("a/*.py")
    assert matches(b"a/b.py")
    assert not matches(b"x/a/b.py")
    assert path_matcher("caf\u00e9")("caf\u00e9".encode())


def test_a_place_has_a_name() -> None:
    assert SearchPlace(fd=0, absolute="/a/b.py", is_file=True).name == b"b.py"
