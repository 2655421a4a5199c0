"""Patterns in ripgrep's syntax: what is read, and where what is wrong stands."""

from __future__ import annotations

import re

import pytest

from moorage.workspace.scanning.expression import (
    compile_python,
    longest_safe_line,
    python_source,
    required_text,
    widened,
)
from moorage.workspace.scanning.pattern import Character, Choice, Repeat, Row, parse
from moorage.workspace.search.selection import PatternError


def test_a_pattern_becomes_a_tree() -> None:
    assert parse("ab|c*?") == Choice(
        (
            Row((Character("a"), Character("b"))),
            Repeat(Character("c"), 0, None, is_lazy=True),
        )
    )


def test_an_error_says_where_it_is() -> None:
    with pytest.raises(PatternError, match=r"unclosed group \(at character 5\)"):
        parse("a(bc")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a)", "unopened group"),
        ("[a", "unclosed character class"),
        ("[a-", "unclosed character class"),
        ("[a&", "unclosed character class"),
        ("(?", "expected flag"),
        ("(?y)", "unrecognized flag"),
        ("a\\", "incomplete escape"),
        (r"\x", "invalid hexadecimal"),
        (r"\x{110000}", "no Unicode character"),
        (r"\u{d800}", "no Unicode character"),
        (r"\1", "backreferences"),
        (r"\y", "unrecognized escape"),
        ("\\\u00e9", "unrecognized escape"),
        ("a{2", "must be a count"),
        ("(?=a)", "look-around"),
        (r"\pL", "needs ripgrep"),
        ("(?R)a", "needs ripgrep"),
        (r"[\n]", "never crosses lines"),
        (r"[\w-a]x[a-\w]", "range boundary"),
        ("(" * 5000, "inside each other"),
        ("[" * 5000 + "a" + "]" * 5000, "inside each other"),
        ("a" + "*" * 5000, "inside each other"),
        ("a{100001}", "higher than"),
        ("a{1," + "9" * 5000 + "}", "higher than"),
        ("[a" + "~~[b" * 90 + "]" * 91, "too large"),
        ("[a" + "~~b" * 100 + "]", "too large"),
    ],
)
def test_what_is_wrong_is_named(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        parse(pattern)


@pytest.mark.parametrize(
    "pattern",
    [".", r"\s", r"\S", r"\W", r"\D", "[^a]", "[^\\n]", "[\\x00-\\x20]", "[[:space:]]",
     "[[:^alpha:]]", "[\\n a]", "(?s).", "[a&&\\n]", "[\\s--a]", "[\\x00-\\x20~~a]"],
)  # fmt: skip
def test_no_character_stands_for_a_line_end(pattern: str) -> None:
    assert compile_python(parse(pattern)).search("\n") is None


@pytest.mark.parametrize("pattern", [".", "[^a]", r"\W", r"\S", r"\D", "[[:^alpha:]]"])
def test_bytes_that_are_no_utf_8_match_nothing_but_themselves(pattern: str) -> None:
    assert compile_python(parse(pattern)).search(b"\xff".decode("utf-8", "surrogateescape")) is None


def test_flags_end_with_their_group() -> None:
    found = compile_python(parse("(?:(?i)a)b|(?x: c d )e f")).fullmatch
    assert [text for text in ("Ab", "AB", "cde f", "cdef") if found(text)] == ["Ab", "cde f"]


def test_comments_and_spaces_are_skipped_under_the_flag_x() -> None:
    found = compile_python(parse("(?x) a # a comment\n [ b c ] {2}\t?")).fullmatch
    assert [text for text in ("abc", "a b", "acc") if found(text)] == ["abc", "acc"]


def test_text_in_ascii_is_searched_with_pythons_own_edges() -> None:
    assert python_source(parse(r"\bfoo\b"), is_ascii=True) == r"\bfoo\b"
    assert r"\b" not in python_source(parse(r"\bfoo\b"))


@pytest.mark.parametrize(
    ("pattern", "at_least", "at_most"),
    [
        ("foo", 1024 * 1024, 1024 * 1024),
        ("fo{5}|b?a", 1024 * 1024, 1024 * 1024),
        ("foo.*", 10_000, 20_000),
        (".*foo.*", 300, 1000),
        ("a*b*c*d*", 20, 100),
        ("x{0,1000}", 10_000, 20_000),
        ("x{1,4}", 1024 * 1024, 1024 * 1024),
        ("(a+)+", 0, 0),
        ("(a|b)*", 0, 0),
        ("(a?){30}", 0, 0),
        ("(?:a|b){2,3}", 0, 0),
        ("(a.*)?", 10_000, 20_000),
        ("(ab){3}", 1024 * 1024, 1024 * 1024),
        ("(a|b)" * 13, 0, 0),
        (r"\b(a|b)$", 1024 * 1024, 1024 * 1024),
    ],
)
def test_the_length_up_to_which_pythons_engine_is_trusted(
    pattern: str, at_least: int, at_most: int
) -> None:
    assert at_least <= longest_safe_line(parse(pattern)) <= at_most


@pytest.mark.parametrize("pattern", ["a(foo|b)+c", "x(?:a+b)*|y", "(?:(?:a|b)+)?c", "(?:[ab]|a)*x"])
def test_a_costly_pattern_is_widened_to_one_that_is_safe(pattern: str) -> None:
    assert longest_safe_line(parse(pattern)) == 0
    wide = widened(parse(pattern))
    assert longest_safe_line(wide) > 10_000
    assert compile_python(wide).search("a" * 10_000 + "b" * 10_000) is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("foo", "foo"),
        (r"\bfoo\.bar\b", "foo.bar"),
        (r"a\w+bcd", "bcd"),
        ("(?:abc)+d", "abc"),
        ("(?:abc)*d", "d"),
        ("foo|bar", ""),
        ("(?i)foo", ""),
        ("[a]b?c", "c"),
        ("", ""),
    ],
)
def test_the_text_that_every_match_contains(pattern: str, expected: str) -> None:
    assert required_text(parse(pattern)) == expected


def test_every_accepted_pattern_compiles_without_a_warning() -> None:
    for pattern in (r"[\[]", "[a&b]", "[a~b]", "[a|b]", "[--a]", "[a-z&&b]", r"[\[\]]", "[|&~]"):
        re.compile(python_source(parse(pattern)))
