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
        ("a{**/x,y}", ["ax", "ay", "ab/x", "ab/c/x"], ["a/b/y", "xx"]),
        ("*a{**/b,c}", ["ab", "xab", "aaab", "xa/b"], ["b", "xb"]),
        ("{**}b", ["b", "a/b", "xb"], ["ba"]),
        ("{a/**}b", ["a/b", "a/x/yb"], ["ab"]),
        ("*[!x]*b", ["ab", "a/b", "aa/b"], ["xb", "a/a/b"]),
        ("**/a*b/**/c*", ["ab/c", "x/ab/y/cd", "a/axb/c"], ["a/b/c", "ab/xc"]),
        ("*/b*c/d*", ["a/bc/d", "a/bxc/dx"], ["a/b/c/d", "a/x/bc/d"]),
        ("a,b", ["a,b"], ["a", "b"]),
        ("a+b(c)|$", ["a+b(c)|$"], ["aab"]),
    ],
)
def test_a_glob_matches_whole_paths(glob: str, matching: list[str], others: list[str]) -> None:
    match = compile_glob(glob).match
    assert [path for path in matching + others if match(path)] == matching


@pytest.mark.timeout(5)  # a second way to each match would take years here
@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 50 + "*b", "a" * 255),
        ("**/a/" * 20 + "b", "a/" * 2047),
        ("**/a*" * 20 + "b", ("a" * 200 + "/") * 20),
        ("{a,aa}" * 8 + "b", "a" * 255),
        ("{*,a*}" * 8 + "b", "a" * 255),
        ("[!b]*" * 8 + "b", "a" * 255),
        ("{**}a*a" * 8 + "b", "a" * 255),
    ],
)
def test_no_glob_makes_one_path_a_long_search(glob: str, path: str) -> None:
    assert not compile_glob(glob).match(path)


@pytest.mark.parametrize(
    "glob",
    [
        *("a" * 5000, "{a,b}" * 9, "{" * 17 + "a" + "}" * 17, "[!a]" * 9),
        *(
            "a{**/b,c}" * 6,
            "{a,b}" * 4 + "{**}x",
            "{" + ",".join(["a" * 800] * 5) + "}" + "{a,b}" * 6,
        ),
    ],
)
def test_what_would_take_long_to_look_for_is_an_error(glob: str) -> None:
    with pytest.raises(GlobError):
        compile_glob(glob)


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
