"""``grep``: what a model sees, pages, bounds, masking; alike with ripgrep and without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moorage.errors import InvalidArguments, Refused
from moorage.policy.permission import PermissionMode
from moorage.tools.grep import Grep
from moorage.workspace.search.hits import SearchLimits
from moorage.workspace.search.ignore import SKIPPED_FOLDERS, SKIPPED_NAMES


@pytest.fixture
def tree(searched):
    searched.write("a.py", "import os\nneedle = 1\n\nprint(needle)\n")
    searched.write("src/b.py", "# needle\n")
    searched.write("src/c.md", "no\nNEEDLE\n")
    return searched


def places(data: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(record["path"], record["line"], record["text"]) for record in data["records"]]


def numbers(record: dict[str, Any], side: str) -> list[int]:
    return [line["line"] for line in record.get(side, ())]


async def test_matching_lines_come_with_path_and_number_in_the_order_of_paths(tree) -> None:
    data = await tree.data("grep", pattern="needle")
    assert places(data) == [
        ("a.py", 2, "needle = 1"),
        ("a.py", 4, "print(needle)"),
        ("src/b.py", 1, "# needle"),
    ]
    assert (data["total_matches"], data["total_files"], data["total"]) == (3, 2, 3)
    assert (data["returned_count"], data["has_more"]) == (3, False)


async def test_the_view_is_headed_by_paths(tree) -> None:
    result = await tree.call("grep", pattern="needle")
    assert result.text == "a.py\n2:needle = 1\n4:print(needle)\n\nsrc/b.py\n1:# needle"


async def test_files_and_counts_can_be_asked_for(tree) -> None:
    files = await tree.call("grep", pattern="needle", output_mode="files_with_matches")
    assert files.text == "a.py\nsrc/b.py"
    counts = await tree.call("grep", pattern="needle", output_mode="count")
    assert counts.text == "a.py:2\nsrc/b.py:1"
    assert counts.structured_content["records"] == [
        {"path": "a.py", "matches": 2},
        {"path": "src/b.py", "matches": 1},
    ]
    assert counts.structured_content["total"] == 2


async def test_case_can_be_ignored(tree) -> None:
    data = await tree.data("grep", pattern="needle", ignore_case=True)
    assert places(data)[-1] == ("src/c.md", 2, "NEEDLE")


async def test_no_match_is_a_success_without_records(tree) -> None:
    result = await tree.call("grep", pattern="nothing like this")
    assert not result.is_error
    assert result.text == "No match."
    assert (result.structured_content["records"], result.structured_content["total"]) == ([], 0)


@pytest.mark.parametrize("pattern", ["foo(", "a{", "[z-a]", "(?=x)", r"\1", "*a", "(?P=n)"])
async def test_a_bad_pattern_is_an_error_with_the_reason(tree, pattern: str) -> None:
    result = await tree.call("grep", pattern=pattern)
    assert result.is_error
    assert result.structured_content["error_kind"] == "bad_pattern"
    assert "cannot be searched for" in result.text
    assert "--pcre2" not in result.text


async def test_a_pattern_that_only_ripgrep_knows_is_an_error_that_says_so(desk) -> None:
    desk.write("a", "\u03b1")
    desk.variables = {"PATH": "/no/programs/here"}
    result = await desk.call("grep", pattern=r"\p{Greek}")
    assert result.structured_content["error_kind"] == "bad_pattern"
    assert "needs ripgrep" in result.text


@pytest.mark.needs("rg", "landlock")
async def test_ripgrep_finds_what_only_it_knows(desk) -> None:
    desk.write("a", "\u03b1")
    assert places(await desk.data("grep", pattern=r"\p{Greek}")) == [("a", 1, "\u03b1")]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        ("*.py", ["a.py", "src/b.py"]),
        ("*.{md,txt}", ["src/c.md"]),
        ("src/*", ["src/b.py", "src/c.md"]),
        ("src/**/*.py", ["src/b.py"]),
        ("**/b.*", ["src/b.py"]),
        ("!*.py", ["src/c.md"]),
        ("!src/**", ["a.py"]),
        ("src/", ["src/b.py", "src/c.md"]),
        ("{a,src/b}.py", ["a.py", "src/b.py"]),
        ("./a.py", ["a.py"]),
        ("*:*", []),
    ],
)
async def test_include_chooses_files_by_name_or_path(
    tree, include: str, expected: list[str]
) -> None:
    tree.write(".ignore", "ignored.py\n")
    tree.write("ignored.py", "needle")
    data = await tree.data(
        "grep", pattern="(?i)needle", include=include, output_mode="files_with_matches"
    )
    assert [record["path"] for record in data["records"]] == expected
    assert data["total_files"] == len(expected)


async def test_a_bad_include_is_an_error(tree) -> None:
    result = await tree.call("grep", pattern="x", include="*.{py")
    assert result.structured_content["error_kind"] == "bad_pattern"


async def test_lines_around_a_match_belong_to_one_record_only(searched) -> None:
    searched.write("f", "one\nhit 2\nthree\nfour\nhit 5\nsix\nseven\neight\nhit 9\n")
    result = await searched.call("grep", pattern="hit", context=1)
    records = result.structured_content["records"]
    assert [
        (numbers(record, "before"), record["line"], numbers(record, "after")) for record in records
    ] == [([1], 2, [3]), ([4], 5, [6]), ([8], 9, [])]
    assert result.text == (
        "f\n1-one\n2:hit 2\n3-three\n4-four\n5:hit 5\n6-six\n--\n8-eight\n9:hit 9"
    )


async def test_before_and_after_win_over_context(searched) -> None:
    searched.write("f", "1\n2\nhit\n4\n5\n")
    (record,) = (await searched.data("grep", pattern="hit", context=1, before=2, after=0))[
        "records"
    ]
    assert [line["text"] for line in record["before"]] == ["1", "2"]
    assert "after" not in record


@pytest.mark.parametrize(
    "arguments", [{"context": -1}, {"before": 1001}, {"after": -3}, {"offset": 2}, {"offset": -2}]
)
async def test_numbers_out_of_range_are_argument_errors(desk, arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidArguments):
        await desk.call("grep", pattern="x", **arguments)


async def test_pages_follow_each_other_without_gap_within_and_between_files(searched) -> None:
    searched.use(Grep(SearchLimits(page_records=3)))
    for name in "abc":
        searched.write(name, "".join(f"hit {number}\n" for number in range(4)))
    seen, offset, token = [], 0, None
    while True:
        data = await searched.data("grep", pattern="hit", offset=offset, expected_revision=token)
        seen += places(data)
        token = data["page"]["snapshot_token"]
        if not data["has_more"]:
            break
        offset = data["page"]["next"]
    assert seen == [(name, line, f"hit {line - 1}") for name in "abc" for line in range(1, 5)]


async def test_a_page_holds_250_records(searched) -> None:
    searched.write("f", "x\n" * 251)
    data = await searched.data("grep", pattern="x")
    assert (data["returned_count"], data["total"], data["page"]["next"]) == (250, 251, 250)


@pytest.mark.parametrize("mode", ["content", "files_with_matches", "count"])
async def test_page_two_after_a_file_changed_asks_to_start_again(searched, mode: str) -> None:
    searched.use(Grep(SearchLimits(page_records=1)))
    searched.write("a", "hit\nhit\n")
    searched.write("b", "hit 1\n")
    first = await searched.data("grep", pattern="hit", output_mode=mode)
    assert first["has_more"]
    token = first["page"]["snapshot_token"]
    same = await searched.data(
        "grep", pattern="hit", output_mode=mode, offset=1, expected_revision=token
    )
    assert same["page"]["snapshot_token"] == token
    searched.write("b", "hit 2\n")  # neither longer nor with other matches
    os.utime(searched.path / "b", ns=(1, 1))
    result = await searched.call(
        "grep", pattern="hit", output_mode=mode, offset=1, expected_revision=token
    )
    assert result.is_error
    assert result.structured_content["error_kind"] == "stale_snapshot"
    assert "Start again at offset 0" in result.text


async def test_a_token_of_another_question_does_not_fit(searched) -> None:
    searched.use(Grep(SearchLimits(page_records=1)))
    searched.write("a", "hit\nhit\n")
    token = (await searched.data("grep", pattern="hit"))["page"]["snapshot_token"]
    result = await searched.call("grep", pattern="hi", offset=1, expected_revision=token)
    assert result.structured_content["error_kind"] == "stale_snapshot"


@pytest.mark.needs("rg", "landlock")
async def test_both_engines_give_the_same_token(desk) -> None:
    desk.write("a", "hit\nhit\n")
    with_ripgrep = await desk.data("grep", pattern="hit")
    desk.variables = {"PATH": "/no/programs/here"}
    assert await desk.data("grep", pattern="hit") == with_ripgrep


async def test_one_answer_carries_20_kib_of_content_and_goes_on_from_there(searched) -> None:
    searched.write("f", ("x" * 999 + "\n") * 100)
    data = await searched.data("grep", pattern="x")
    assert (data["returned_count"], data["page"]["next"], data["has_more"]) == (20, 20, True)
    content = sum(len(record["text"].encode()) for record in data["records"])
    assert content <= 20 * 1024
    following = await searched.data(
        "grep", pattern="x", offset=20, expected_revision=data["page"]["snapshot_token"]
    )
    assert following["records"][0]["line"] == 21


async def test_the_view_keeps_to_its_budget_and_says_where_to_go_on(searched) -> None:
    searched.write("f", "".join(f"{number} {'x' * 95}\n" for number in range(300)))
    result = await searched.call("grep", pattern="x")
    assert len(result.text.encode()) <= 8192
    *lines, footer = result.text.split("\n")
    shown = len(lines) - 1
    assert footer.startswith(f"[records 1-{shown} of 300; go on with offset={shown}, ")


async def test_4_kib_of_a_long_line_are_shown_around_the_match(searched) -> None:
    searched.write("f", "é" * 50_000 + "needle" + "ü" * 50_000 + "\n")
    result = await searched.call("grep", pattern="needle")
    (record,) = result.structured_content["records"]
    assert len(record["text"].encode()) <= 4096
    assert "needle" in record["text"]
    assert "\ufffd" not in record["text"]
    assert record["omitted_bytes"] == 200_006 - len(record["text"].encode())
    assert "bytes of the line are not shown" in result.text


async def test_a_line_above_1_mib_becomes_a_note(searched) -> None:
    for length in (1024 * 1024, 9_000_000):
        searched.write("f", "a\n" + "x" * length + "needle\nneedle\n")
        records = (await searched.data("grep", pattern="needle"))["records"]
        assert [(record["line"], record.get("is_too_long", False)) for record in records] == [
            (2, True),
            (3, False),
        ]
    assert records[0]["text"] == "[a line of more than 1 MiB is not shown]"


async def test_a_line_with_a_million_matches_does_not_exhaust_anything(searched) -> None:
    searched.write("f", "x" * 1_000_000 + "\nx\n")
    records = (await searched.data("grep", pattern="x"))["records"]
    assert [record["line"] for record in records] == [1, 2]


async def test_lines_around_one_match_are_cut_when_they_alone_are_too_much(searched) -> None:
    searched.write("f", ("y" * 999 + "\n") * 30 + "needle\n" + ("z" * 999 + "\n") * 30)
    (record,) = (await searched.data("grep", pattern="needle", context=30))["records"]
    assert record["omitted_context_lines"] > 0
    assert record["text"] == "needle"
    assert record["before"][-1]["line"] == 30
    kept = [record["text"], *(line["text"] for line in record["before"] + record["after"])]
    assert sum(map(len, kept)) <= 20 * 1024


async def test_a_file_named_directly_is_searched_even_if_ignored(searched) -> None:
    searched.write(".ignore", "*.log\n")
    searched.write("x.log", "needle\n")
    searched.write("node_modules/m/x.js", "needle\n")
    assert (await searched.data("grep", pattern="needle"))["total"] == 0
    named = await searched.data("grep", pattern="needle", path="x.log", include="*.py")
    assert places(named) == [("x.log", 1, "needle")]
    assert (await searched.data("grep", pattern="needle", path="node_modules"))["total"] == 1
    counted = await searched.data("grep", pattern="needle", path="x.log", output_mode="count")
    assert counted["records"] == [{"path": "x.log", "matches": 1}]


async def test_hidden_files_are_searched_and_the_skipped_folders_are_not(searched) -> None:
    searched.write(".github/ci.yml", "needle")
    for folder in (*SKIPPED_NAMES, *SKIPPED_FOLDERS):
        searched.write(f"deep/{folder}/x", "needle")
    assert places(await searched.data("grep", pattern="needle")) == [
        (".github/ci.yml", 1, "needle")
    ]


async def test_the_users_ripgrep_configuration_is_not_read(searched) -> None:
    searched.write("rc", "--invert-match\n")
    searched.variables["RIPGREP_CONFIG_PATH"] = str(searched.path / "rc")
    searched.write("a", "needle\nother\n")
    assert (await searched.data("grep", pattern="needle", path="a"))["total"] == 1


async def test_matches_in_protected_files_are_masked(searched) -> None:
    searched.write(".env", "API_KEY=hunter2\n# needle\n")
    searched.write("a", "API_KEY=hunter2\n")
    result = await searched.call("grep", pattern="API_KEY|needle", context=1)
    assert result.text == ".env\n1:[REDACTED]\n2:[REDACTED]\n\na\n1:API_KEY=hunter2"
    assert "hunter2" not in str(result.structured_content["records"][:2])
    named = await searched.data("grep", pattern="API", path=".env")
    assert places(named) == [(".env", 1, "[REDACTED]")]


async def test_unconfined_shows_protected_files_with_their_secrets_masked(searched) -> None:
    searched.write(".env", "API_KEY=hunter2abc\nPORT=80\n")
    data = await searched.data("grep", pattern="=", mode=PermissionMode.UNCONFINED)
    assert places(data) == [(".env", 1, "API_KEY=[REDACTED]"), (".env", 2, "PORT=80")]


async def test_a_search_does_not_read_moorages_own_output(searched) -> None:
    log = searched.own / "tool-results" / "log"
    log.parent.mkdir()
    log.write_text("needle\n")
    searched.write("a", "needle\n")
    top = Path(searched.path).parent
    data = await searched.data(
        "grep", pattern="needle", path=str(top), mode=PermissionMode.UNCONFINED
    )
    assert [record["path"] for record in data["records"]] == [str(searched.path / "a")]


async def test_a_session_log_that_is_named_can_be_searched(searched) -> None:
    (searched.own / "log").write_text("needle\n")
    data = await searched.data("grep", pattern="needle", path="$MOORAGE_SESSION_DIR/log")
    assert data["total"] == 1


async def test_symlinks_are_not_followed_and_circles_end(searched) -> None:
    searched.link("out", searched.outside)
    (searched.outside / "secret").write_text("needle\n")
    searched.link("secret", searched.outside / "secret")
    searched.write("in/a", "needle\n")
    searched.link("in/circle", "..")
    assert places(await searched.data("grep", pattern="needle")) == [("in/a", 1, "needle")]
    for path in ("out", "secret", "../outside"):
        with pytest.raises(Refused) as caught:
            await searched.call("grep", pattern="needle", path=path)
        assert caught.value.reason == "boundary_denied"


async def test_binary_files_are_skipped_and_one_that_is_named_says_that_it_matches(
    searched,
) -> None:
    searched.write("early", b"needle\n\0\nneedle\n")
    searched.write("late", b"needle\n" * 40_000 + b"\0")
    assert (await searched.data("grep", pattern="needle"))["total"] == 0
    result = await searched.call("grep", pattern="needle", path="early")
    assert result.text == "[binary file; 2 matching lines are not shown]"
    assert result.structured_content["is_binary"]
    assert result.structured_content["records"] == []


async def test_text_that_is_no_utf_8_is_shown_with_replacement_characters(searched) -> None:
    searched.write("a", b"caf\xe9 needle\r\n")
    assert places(await searched.data("grep", pattern="needle")) == [("a", 1, "caf\ufffd needle")]


async def test_a_fifo_and_a_missing_path_are_ordinary_errors(searched) -> None:
    os.mkfifo(searched.path / "fifo")
    for path, kind in (("fifo", "not_a_regular_file"), ("missing", "not_found")):
        result = await searched.call("grep", pattern="x", path=path)
        assert result.structured_content["error_kind"] == kind
    assert (await searched.data("grep", pattern="x"))["total"] == 0


@pytest.mark.needs("not root")
async def test_an_unreadable_file_is_mentioned(searched) -> None:
    searched.write("secret", "needle").chmod(0)
    result = await searched.call("grep", pattern="needle")
    assert "some files could not be read" in result.text


async def test_a_slow_search_is_ended_and_says_so(tree) -> None:
    tree.use(Grep(SearchLimits(timeout_seconds=0.0)))
    result = await tree.call("grep", pattern="needle")
    assert result.structured_content["error_kind"] == "timed_out"


async def test_a_page_too_deep_to_be_kept_is_one_clear_error(searched) -> None:
    searched.use(Grep(SearchLimits(max_kept_bytes=500, page_records=10)))
    for number in range(90):
        searched.write(f"f{number}", "x")
    result = await searched.call("grep", pattern="x", output_mode="count")
    assert result.structured_content["error_kind"] == "page_too_deep"


async def test_a_nul_in_the_pattern_is_an_argument_error(desk) -> None:
    with pytest.raises(InvalidArguments, match="NUL"):
        await desk.call("grep", pattern="a\0b")


async def test_a_pattern_may_begin_with_a_dash(searched) -> None:
    searched.write("a", "--flag\n")
    assert (await searched.data("grep", pattern="--flag"))["total"] == 1


async def test_the_mode_read_only_searches_too(searched) -> None:
    searched.write("a", "needle\n")
    data = await searched.data("grep", pattern="needle", mode=PermissionMode.READ_ONLY)
    assert data["total"] == 1


HARD_PATTERNS = [
    "(" * 3000 + "x" + ")" * 3000,
    "[" * 3000 + "x" + "]" * 3000,
    "[^" * 90 + "x" + "]" * 90,
    "[a" + "~~[b" * 60 + "]" * 61,
    "x" + "*" * 3000,
    "x{99999999999999999999}",
    "x{1000}{1000}{1000}",
    "(?:" * 60 + "x" + "{1000})" * 60,
    "(x+x+)+y",
    "x|" * 10_000,
    "\\x{" + "0" * 5000 + "41}",
    "\ud7ff[\u0100-\U0010ffff]" * 500,
]


@pytest.mark.parametrize("pattern", HARD_PATTERNS)
async def test_whatever_the_pattern_there_is_an_answer_or_one_clear_error(
    searched, pattern: str
) -> None:
    searched.write("f", "x" * 3000 + "\n")
    result = await searched.call("grep", pattern=pattern)
    if result.is_error:
        assert result.structured_content["error_kind"] == "bad_pattern"
        assert "Traceback" not in result.text


async def test_a_pattern_longer_than_a_program_takes_is_an_argument_error(searched) -> None:
    with pytest.raises(InvalidArguments, match="has 32769 bytes; at most 32768"):
        await searched.call("grep", pattern="x" * 32_769)
    assert not (await searched.call("grep", pattern="x" * 32_768)).is_error


@pytest.mark.parametrize("offset", [-1, 10**9 + 1, 10**30])
@pytest.mark.parametrize("tool", ["grep", "glob"])
async def test_an_offset_that_no_answer_has_is_an_argument_error(
    searched, tool: str, offset: int
) -> None:
    with pytest.raises(InvalidArguments, match=f"offset is {offset}; it is a number from 0 to"):
        await searched.call(tool, pattern="x", offset=offset, expected_revision="x")


@pytest.mark.parametrize("name", [".ignore", ".gitignore"])
async def test_a_linked_ignore_file_tells_nothing_of_a_hidden_file(searched, name: str) -> None:
    (searched.home / "token").write_text("f\n")
    searched.write("f", "needle\n")
    searched.write(".git/HEAD", "ref\n")
    searched.link(name, searched.home / "token")
    assert places(await searched.data("grep", pattern="needle")) == [("f", 1, "needle")]
