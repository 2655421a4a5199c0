"""Rules of ignore files: which rule decides, and where its power ends."""

from __future__ import annotations

import pytest

from moorage.workspace.search.ignore import (
    FolderRules,
    RuleSet,
    folder_rules,
    is_ignored,
    is_skipped,
)


def decide(text: str, path: str, *, is_folder: bool = False) -> bool | None:
    return RuleSet(text).decide(path, path.rpartition("/")[2], is_folder=is_folder)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("*.log", "a/b.log", True),
        ("*.log", "a.logs", None),
        ("*.log\n!keep.log", "keep.log", False),
        ("!keep.log\n*.log", "keep.log", True),
        ("foo", "a/foo", True),
        ("/foo", "a/foo", None),
        ("/foo", "foo", True),
        ("a/b", "a/b", True),
        ("a/b", "x/a/b", None),
        ("**/b", "x/b", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", None),
        ("a/**/c", "a/c", True),
        ("# foo", "# foo", None),
        (r"\#foo", "#foo", True),
        (r"\!foo", "!foo", True),
        ("foo  ", "foo", True),
        ("foo\\ ", "foo ", True),
        ("foo\r", "foo", True),
        ("\ufefffoo", "foo", True),
        ("", "foo", None),
        ("   ", "foo", None),
        ("/", "foo", None),
        ("[", "[", None),
        ("*.tar.gz", "a.tar.gz", True),
        ("*", "anything", True),
        ("f?o", "a/foo", True),
        ("!*.py\n*", "a.py", True),
        ("*\n!*.py", "a.py", False),
        ("*.py\n*\n!a.*", "a.py", False),
        (".*", ".hidden", True),
    ],
)
def test_the_last_rule_that_matches_decides(text: str, path: str, expected: bool | None) -> None:
    assert decide(text, path) is expected


@pytest.mark.parametrize("rule", ["build/", "/build/", "**/build/", "bu*d/", "build\\/"])
def test_a_rule_with_a_slash_at_the_end_is_for_folders(rule: str) -> None:
    assert decide(rule, "build", is_folder=True)
    assert decide(rule, "build") is None


def test_an_earlier_plain_rule_yields_to_a_later_pattern_and_the_other_way_round() -> None:
    assert decide("foo\n!f*", "foo") is False
    assert decide("!f*\nfoo", "foo") is True
    assert decide("*.x\n!a.*\n", "a.x") is False
    assert decide("!a.*\n*.x\n", "a.x") is True


def test_no_rules_are_no_rules() -> None:
    assert not RuleSet("# nothing\n\n")
    assert RuleSet("a")
    assert folder_rules((None, "", "# nothing"), is_repository=False) is None


def chain(*folders: FolderRules | None) -> list[FolderRules]:
    return [folder for folder in folders if folder is not None]


def git(text: str, *, depth: int = 0, is_repository: bool = True) -> FolderRules | None:
    return folder_rules((None, None, text), is_repository=is_repository, depth=depth)


def test_rules_for_git_count_only_inside_a_repository() -> None:
    assert is_ignored(chain(git("*.log")), "a.log", "a.log", is_folder=False)
    outside = chain(git("*.log", is_repository=False))
    assert not is_ignored(outside, "a.log", "a.log", is_folder=False)


def test_a_deeper_folder_goes_before_a_higher_one() -> None:
    rules = chain(git("*.log"), git("!b.log", depth=2, is_repository=False))
    assert not is_ignored(rules, "a/b.log", "b.log", is_folder=False)
    assert is_ignored(rules, "a/c.log", "c.log", is_folder=False)


def test_rules_for_git_end_at_the_top_of_a_nested_repository() -> None:
    rules = chain(git("*.log"), git("", depth=2))
    assert not is_ignored(rules, "a/b.log", "b.log", is_folder=False)


def test_the_kinds_of_ignore_files_have_their_order_across_folders() -> None:
    above = folder_rules(("!a.x", None, None), is_repository=True)
    below = folder_rules((None, "a.x", "a.x", "a.x"), is_repository=False, depth=2)
    assert not is_ignored(chain(above, below), "d/a.x", "a.x", is_folder=False)
    assert is_ignored(chain(below), "d/a.x", "a.x", is_folder=False)


def test_rules_above_the_searched_folder_see_the_way_down_to_it() -> None:
    above = folder_rules((None, "/top/a", None), is_repository=False, prefix="top/")
    assert is_ignored(chain(above), "a", "a", is_folder=False)
    assert not is_ignored(chain(above), "b/a", "a", is_folder=False)


def test_without_rules_nothing_is_ignored() -> None:
    assert not is_ignored([], "a", "a", is_folder=False)


def test_some_names_are_never_looked_at() -> None:
    assert is_skipped(".git", is_folder=False)
    assert is_skipped("vendor", is_folder=True)
    assert not is_skipped("vendor", is_folder=False)
    assert not is_skipped("src", is_folder=True)
