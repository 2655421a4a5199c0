"""ripgrep and our own engine give the same answers on one corpus, for all that both know."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.confine.plan import Plan
from moorage.process.supervisor import Supervisor
from moorage.workspace.search.by_program import SMALL_ANSWER_BYTES, ProgramSearch
from moorage.workspace.search.engine import (
    Answer,
    Page,
    Search,
    find_files,
    search,
    way_to_search,
)
from moorage.workspace.search.hits import SearchLimits
from moorage.workspace.search.own import OwnEngine
from moorage.workspace.search.ripgrep import Ripgrep
from moorage.workspace.search.selection import PatternError, Query, SearchPlace, read_include

pytestmark = [pytest.mark.needs("rg", "landlock")]

LIMITS = SearchLimits(max_content_bytes=10**9)
PAGE = Page(0, 100_000)

PATTERNS = [
    # Plain text, and characters that mean something elsewhere.
    "foo", "Foo", "", "nothing here", r"foo\.bar\[0\]", "--foo", "&", "~", "#", "'", '"', "-", "/",
    r"\/", r"\"", r"\'", r"\-", r"\&", r"\~", r"\#", r"\,", r"\:", r"\@", r"\!", "]", "}",
    # Classes.
    ".", "f.o", "[fb]oo", "[^a-z]oo", "[a-c]ar", r"[\w.]+=", "[]x]", "[-x]", "[x-]", "[^]]oo",
    r"[\[\]]", r"[^\s]foo", r"\d", r"\D\d", r"\w+", r"\W", r"\s", r"\S+\s\S+", r"^\s*$",
    "[[:alpha:]]", "[[:^alpha:]]", "[[:upper:]][[:lower:]]", "[^[:space:]]oo", "[[:punct:]]",
    "[[:xdigit:]]{3}", "[a-z&&[^aeiou]]oo", "[a-z--f]oo", "[a-f~~d-z]oo", "[f[gh]]oo", "[f[^o]]oo",
    "[\u00e0-\u00ff]", "\u00e9", "\u65e5.*foo", r"[\x41-\x5a]", r"[\t]",
    # Anchors and edges.
    "^foo", "foo$", "^foo$", "^", "$", "^$", r"\bfoo\b", r"foo\B", r"\Bfoo", r"\b\u00e9",
    "(^|x)foo", "(?m)^foo", "a^b", "a$b", r"end;$", r"line\s$",
    # Repetition, greedy and not.
    "fo*", "fo+", "fo?o", "fo{2}", "fo{1,2}", "fo{2,}", "f.*?o", "fo+?", "fo??", "f{0}oo",
    "(foo|bar)+", "(?:fo)+o", "(fo(o)?)*", "a**", "x{69,}foo", "y{1000}", r"(\w+[ (])*foo",
    # Groups, choices, flags.
    "foo|bar", "foo|", "(|foo)", "()", "(foo)(bar)?", "(?P<name>foo)", "(?i)FOO", "(?i:F)oo",
    "f(?i)OO", "(?i)f(?-i)oo", "(?x) f o o # comment", "(?x)f[ o]o", "(?U)fo*", "(?s)foo.",
    "(?i)STRASSE", "(?i)stra\u00dfe", "(?i)\u00e9", "(?i)\u0394",
    # Escapes.
    r"\x66oo", r"\x{66}oo", r"\u0066oo", r"\U00000066oo", r"\t", r"\r", r"\f", r"\$foo", r"\\o",
    r"\x00", r"[\x00-\x08]", r"\x{65e5}",
]  # fmt: skip

BOTH_REFUSE = [
    "foo(", "foo)", "(?:foo", "*foo", "+", "?x", "a|*", "foo{", "foo{x}", "foo{,2}", "foo{3,1}",
    "{2}", "[foo", "[z-a]", "[a-\\d]", r"[\b]", "[\\n]", r"foo\n", "foo\nbar", "(?=foo)",
    "(?!foo)", "(?<=foo)", "(?<!foo)", r"(foo)\1", "(?P=foo)", "(?#c)", "(?>a)", "(?i", "(?z)",
    "(?-)x(", r"\y", r"\cA", r"\Q", r"\Z", "foo\\", r"\xZZ", r"\x{110000}", r"\ud800", r"\8",
]  # fmt: skip

ONLY_RIPGREP = [r"\p{Greek}", r"\pL", r"\P{Lu}", r"\Afoo", r"foo\z", r"(?-u)\w", "(?-m)^foo"]


class Engines:
    """Both ways to search one folder."""

    def __init__(self, root: Path, supervisor: Supervisor, plan: Plan) -> None:
        self.fd = os.open(root, os.O_RDONLY)
        self.place = SearchPlace(fd=self.fd, absolute=str(root))
        self._start = (supervisor, plan)

    @property
    def ways(self) -> list[Search]:
        """Return new searches: with ripgrep, and our own."""
        return [way_to_search(program, *self._start) for program in (_ripgrep(), None)]

    async def both(
        self, query: Query, page: Page = PAGE, *, small_bytes: int = SMALL_ANSWER_BYTES
    ) -> tuple[Answer, Answer]:
        theirs, ours = [
            await search(
                ProgramSearch(engine, *self._start, small_bytes=small_bytes),
                self.place,
                query,
                page,
                LIMITS,
            )
            for engine in (Ripgrep(_ripgrep()), OwnEngine())
        ]
        return theirs, ours


def _ripgrep() -> str:
    program = shutil.which("rg")
    assert program is not None
    return program


@pytest.fixture
def engines(corpus: Path, supervisor: Supervisor, plan: Plan) -> Iterator[Engines]:
    engines = Engines(corpus, supervisor, plan)
    yield engines
    os.close(engines.fd)


def plain(answer: Answer) -> list[Any]:
    """Return the records without where in a line the match begins; engines may differ there."""
    return [
        (
            record.path,
            record.matches,
            record.line
            and (record.line.number, record.line.omitted_bytes, record.line.is_too_long),
            [line.number for line in record.before],
            [(line.number, line.text) for line in record.after],
        )
        for record in answer.records
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_the_same_lines_match(engines: Engines, pattern: str) -> None:
    theirs, ours = await engines.both(Query(pattern=pattern))
    assert plain(ours) == plain(theirs)
    assert ours.total_matches == theirs.total_matches
    assert ours.token == theirs.token


@pytest.mark.parametrize("pattern", ["foo", "^", r"\bfoo", "(?i)stra\u00dfe", "x{69,}foo"])
async def test_the_same_lines_match_when_the_answer_is_too_large_for_one_run(
    engines: Engines, pattern: str
) -> None:
    theirs, ours = await engines.both(
        Query(pattern=pattern, before=1, after=1), Page(3, 40), small_bytes=0
    )
    assert plain(ours) == plain(theirs)
    assert ours.token == theirs.token


@pytest.mark.parametrize("pattern", ["foo", "STRASSE", "\u00c9", "[a-f]OO", r"\bFOO\b", "[^f]oo"])
async def test_the_same_lines_match_without_regard_to_case(engines: Engines, pattern: str) -> None:
    theirs, ours = await engines.both(Query(pattern=pattern, ignore_case=True))
    assert plain(ours) == plain(theirs)


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (2, 2), (1000, 1000)])
async def test_the_same_lines_stand_around_a_match(
    engines: Engines, before: int, after: int
) -> None:
    theirs, ours = await engines.both(Query(pattern="bar|end", before=before, after=after))
    assert plain(ours) == plain(theirs)


@pytest.mark.parametrize("offset", [0, 7, 600])
async def test_a_page_within_a_file_holds_the_same_records(engines: Engines, offset: int) -> None:
    query = Query(pattern="foo", before=1, after=1)
    theirs, ours = await engines.both(query, Page(offset, 9))
    assert len(theirs.records) == 9
    assert plain(ours) == plain(theirs)


@pytest.mark.parametrize(
    "include",
    [
        "*.py",
        "*.{ts,rs}",
        "src/**",
        "**/*.txt",
        "!*.txt",
        "docs/*",
        "[a-m]*",
        "?*-*",
        "src/deep/",
        "*",
    ],
)
async def test_the_same_files_are_included(engines: Engines, include: str) -> None:
    query = Query(pattern="foo", counts_files=True, include=read_include(include))
    theirs, ours = await engines.both(query)
    assert plain(ours) == plain(theirs)
    assert ours.total_files > 0


async def test_the_same_files_are_looked_into_from_every_folder(
    corpus: Path, supervisor: Supervisor, plan: Plan
) -> None:
    folders = [corpus, *(Path(name) for name, _, _ in os.walk(corpus) if ".git" not in name)]
    for folder in folders:
        engines = Engines(folder, supervisor, plan)
        try:
            theirs, ours = [
                await find_files(way, engines.place, lambda _: True, PAGE, LIMITS)
                for way in engines.ways
            ]
        finally:
            os.close(engines.fd)
        assert [record.path for record in ours.records] == [
            record.path for record in theirs.records
        ], folder


async def test_both_look_into_a_tree_of_any_depth(
    deep_tree, supervisor: Supervisor, plan: Plan
) -> None:
    (deep_tree.path / "last").write_text("foo\n")
    engines = Engines(deep_tree.path, supervisor, plan)
    try:
        theirs, ours = await engines.both(Query(pattern=""))
        listed = [
            await find_files(way, engines.place, lambda _: True, PAGE, LIMITS)
            for way in engines.ways
        ]
    finally:
        os.close(engines.fd)
    assert plain(ours) == plain(theirs)
    paths = [[record.path for record in answer.records] for answer in listed]
    assert paths == [[b"d/" * deep_tree.depth + b"file", b"last"]] * 2


async def test_excluded_paths_are_left_out_by_both(
    corpus: Path, supervisor: Supervisor, plan: Plan
) -> None:
    engines = Engines(corpus, supervisor, plan)
    excluded = ("docs", "src/deep", "[x]{y}!.txt")
    engines.place = SearchPlace(fd=engines.fd, absolute=str(corpus), excluded=excluded)
    try:
        theirs, ours = await engines.both(Query(pattern="foo", counts_files=True))
    finally:
        os.close(engines.fd)
    assert plain(ours) == plain(theirs)
    paths = [record.path for record in ours.records]
    assert b"src/main.rs" in paths
    assert not [path for path in paths if path.startswith((b"docs", b"src/deep", b"["))]


@pytest.mark.parametrize("pattern", BOTH_REFUSE)
async def test_both_refuse_what_is_no_pattern_and_say_why(engines: Engines, pattern: str) -> None:
    for way in engines.ways:
        with pytest.raises(PatternError) as caught:
            await search(way, engines.place, Query(pattern=pattern), PAGE, LIMITS)
        assert len(str(caught.value)) > 10
        assert "Consider" not in str(caught.value)


@pytest.mark.parametrize("pattern", ONLY_RIPGREP)
async def test_what_only_ripgrep_knows_says_so_without_it(engines: Engines, pattern: str) -> None:
    with_ripgrep, without = engines.ways
    await search(with_ripgrep, engines.place, Query(pattern=pattern), PAGE, LIMITS)
    with pytest.raises(PatternError, match="needs ripgrep, which is not installed"):
        await search(without, engines.place, Query(pattern=pattern), PAGE, LIMITS)
