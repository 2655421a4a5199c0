"""Searching and the repository: grep, glob and git see the files that the tools see."""

from __future__ import annotations

from moorage.errors import InvalidArguments, Refused, ToolFailed
from moorage.host.session import Session
from moorage.testing.conformance.place import Place
from moorage.testing.conformance.registry import check
from moorage.testing.conformance.seeing import data_of, fails, holds, same


async def _lay_out(session: Session) -> None:
    await session.write_file("a.py", "one\nTwo\n")
    await session.write_file("src/deep/b.py", "three\ntwo\n")
    await session.write_file("src/c.txt", "two\n")


@check("searching", "grep")
async def grep_tells_file_and_line(place: Place) -> None:
    """A search tells the file, the line's number and its text."""
    async with place.session() as session:
        await _lay_out(session)
        records = data_of(await session.grep("th.ee"))["records"]
        told = [(each["path"], each["line"], each["text"].rstrip()) for each in records]
        same(told, [("src/deep/b.py", 1, "three")], "the matches")


@check("searching", "grep")
async def grep_looks_only_where_it_is_told(place: Place) -> None:
    """A folder and a pattern for names narrow a search."""
    async with place.session() as session:
        await _lay_out(session)
        found = data_of(await session.grep("two", "src", include="*.py"))["records"]
        same([each["path"] for each in found], ["src/deep/b.py"], "the files")


@check("searching", "grep")
async def grep_ignores_case_when_asked(place: Place) -> None:
    """Case counts, unless it is said not to."""
    async with place.session() as session:
        await _lay_out(session)
        strict = data_of(await session.grep("two"))["total_matches"]
        loose = data_of(await session.grep("two", ignore_case=True))["total_matches"]
        same((strict, loose), (2, 3), "the numbers of matches")


@check("searching", "grep")
async def grep_names_files_when_asked(place: Place) -> None:
    """``files_with_matches`` names each file once."""
    async with place.session() as session:
        await _lay_out(session)
        asked = await session.grep("o", output_mode="files_with_matches")
        paths = sorted(each["path"] for each in data_of(asked)["records"])
        same(paths, ["a.py", "src/c.txt", "src/deep/b.py"], "the files")


@check("searching", "grep")
async def grep_without_a_match_is_no_error(place: Place) -> None:
    """Nothing found is an answer with no match in it."""
    async with place.session() as session:
        await _lay_out(session)
        found = data_of(await session.grep("nowhere-at-all"))
        same((found["total_matches"], found["records"]), (0, []), "the answer")


@check("searching", "grep")
async def a_pattern_that_is_none_is_an_error(place: Place) -> None:
    """A malformed expression is an error and not an empty answer."""
    async with place.session() as session:
        await _lay_out(session)
        with fails(ToolFailed, InvalidArguments, what="the pattern '('"):
            await session.grep("(")


@check("searching", "grep")
async def a_search_stays_inside(place: Place) -> None:
    """A search outside the workspace is refused."""
    async with place.session(mode="standard") as session:
        with fails(Refused, what="searching /etc"):
            await session.grep("root", "/etc")


@check("searching", "glob")
async def glob_finds_files_at_every_depth(place: Place) -> None:
    """``**`` crosses folders, and only names that match are told."""
    async with place.session() as session:
        await _lay_out(session)
        paths = sorted(data_of(await session.glob("**/*.py"))["paths"])
        same(paths, ["a.py", "src/deep/b.py"], "the files")


@check("searching", "glob")
async def glob_without_a_match_is_no_error(place: Place) -> None:
    """Nothing found is an answer without paths."""
    async with place.session() as session:
        await _lay_out(session)
        same(data_of(await session.glob("**/*.nowhere"))["paths"], [], "the files")


_REPOSITORY = (
    "git init -q . && git config user.name T && git config user.email t@example.org"
    " && git config commit.gpgsign false"
)


async def _make_repository(session: Session) -> None:
    made = await session.run(_REPOSITORY)
    same((made.exit_code, made.stderr), (0, ""), "making a repository")


@check("searching", "commands", "git")
async def git_tells_what_has_changed(place: Place) -> None:
    """The status of a repository names a new file."""
    async with place.session() as session:
        await _make_repository(session)
        await session.write_file("a.txt", "one\n")
        told = await session.git("status")
        holds("a.txt" in told.text, f"the status does not name a.txt: {told.text}")


@check("searching", "commands", "git")
async def git_commits_what_is_named(place: Place) -> None:
    """A named file is added and committed, and the log tells of it."""
    async with place.session() as session:
        await _make_repository(session)
        await session.write_file("a.txt", "one\n")
        await session.git("add", "a.txt")
        await session.git("commit", "-m", "First words")
        told = await session.git("log")
        holds("First words" in told.text, f"the log does not tell of the commit: {told.text}")


@check("searching", "git")
async def git_reaches_no_other_repository(place: Place) -> None:
    """What sends work away or rewrites it is refused, and a missing repository is said."""
    async with place.session() as session:
        with fails(ToolFailed, what="status without a repository"):
            await session.git("status")
        with fails(Refused, what="git push"):
            await session.git("push", "origin", "main")
