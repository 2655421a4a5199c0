"""Globs as ripgrep and ignore files read them."""

from __future__ import annotations

import os

import pytest

from moorage.workspace.search.globs import GlobError, byte_text, compile_glob, has_wildcard


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("a.py", ["a.py"], ["xa.py", "a-py", "b/a.py", "a.py\n"]),
        ("*.py", ["a.py", ".py"], ["a.pyc", "b/a.py"]),
        ("**/*.py", ["a.py", "b/a.py", "b/c/a.py"], ["a.pyc"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "xsrc/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("**", ["a", "a/b"], []),
        ("**/**", ["a", "a/b"], []),
        ("a/**/**/b", ["a/b", "a/x/y/b"], ["ab"]),
        ("**foo", ["foo", "xfoo"], ["x/foo"]),
        ("foo**", ["foo", "foox"], ["foo/x"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[!a-c]x", ["dx"], ["ax"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("[]]x", ["]x"], ["x"]),
        ("[a-]x", ["ax", "-x"], ["bx"]),
        ("[[]x", ["[x"], ["x"]),
        (r"\*x", ["*x"], ["ax"]),
        (r"\[x\]", ["[x]"], ["x"]),
        ("*.{py,ts}", ["a.py", "b.ts"], ["a.js", "a.{py,ts}"]),
        ("{a,b/{c,d}}", ["a", "b/c", "b/d"], ["b", "c"]),
        ("{**/x,y}", ["x", "a/x", "y"], ["a/y"]),
        ("{y,**}/x", ["y/x", "a/b/x"], ["x"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("a+b(c)|$", ["a+b(c)|$"], ["aab"]),
    ],
)
def test_a_glob_matches_whole_paths(glob: str, matching: list[str], others: list[str]) -> None:
    match = compile_glob(glob).match
    assert [path for path in matching + others if match(path)] == matching


@pytest.mark.parametrize("glob", ["a[", "[]", "[!]", "{a", "{a,{b}", "a}", "[z-a]", "a\\"])
def test_what_is_no_glob_is_an_error(glob: str) -> None:
    with pytest.raises(GlobError):
        compile_glob(glob)


def test_a_question_mark_is_one_byte_as_in_git() -> None:
    assert not compile_glob("?").match(byte_text("\u00e9"))
    assert compile_glob("??").match(byte_text("\u00e9"))
    assert compile_glob("caf\u00e9*").match(byte_text("caf\u00e9s"))
    assert compile_glob("caf?").match(byte_text(os.fsdecode(b"caf\xe9")))


def test_plain_names_have_no_wildcard() -> None:
    assert [text for text in ("a b", "a*", "[", "{", "?", "\\") if not has_wildcard(text)] == [
        "a b"
    ]
