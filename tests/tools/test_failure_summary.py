from __future__ import annotations

import pytest

from moorage.tools.failure_summary import in_words, summarise

PYTEST = """\
________________ test_adds ________________
    def test_adds():
>       assert add(1, 2) == 4
E       assert 3 == 4
E        +  where 3 = add(1, 2)
tests/test_sum.py:7: AssertionError
=========== short test summary info ===========
FAILED tests/test_sum.py::test_adds - assert 3 == 4
ERROR tests/test_io.py::test_reads - OSError
1 failed, 1 error in 0.03s
"""


def test_pytest_output_gives_tests_places_and_excerpts() -> None:
    summary = summarise(PYTEST)
    assert summary["failed"] is True
    assert summary["failing_tests"] == [
        "tests/test_sum.py::test_adds",
        "tests/test_io.py::test_reads",
    ]
    assert summary["locations"][0] == {
        "path": "tests/test_sum.py",
        "line": 7,
        "column": 0,
        "text": "tests/test_sum.py:7: AssertionError",
    }
    assert summary["snippets"] == ["E       assert 3 == 4\nE        +  where 3 = add(1, 2)"]
    assert "1 failed, 1 error in 0.03s" in summary["indicators"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("--- FAIL: TestSum (0.00s)", "TestSum"),
        ("    --- FAIL: TestSum/case_1 (0.00s)", "TestSum/case_1"),
        ("FAIL\texample.org/sum\t0.01s", "example.org/sum"),
        ("FAIL: test_adds (tests.Sum.test_adds)", "test_adds"),
        ("FAIL src/sum.test.ts", "src/sum.test.ts"),
        (" FAIL  src/sum.test.ts > adds", "src/sum.test.ts > adds"),
        ("test sum::adds ... FAILED", "sum::adds"),
    ],
)
def test_failing_tests_of_other_frameworks_are_found(line: str, name: str) -> None:
    assert summarise(f"before\n{line}\nafter\n")["failing_tests"] == [name]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("src/a.ts(3,5): error TS2322: no", ("src/a.ts", 3, 5)),
        ("src/a.rs:10:2 error", ("src/a.rs", 10, 2)),
        ('  File "/w/a b.py", line 12, in f', ("/w/a b.py", 12, 0)),
    ],
)
def test_places_are_found_in_every_spelling(line: str, place: tuple[str, int, int]) -> None:
    found = summarise(line)["locations"][0]
    assert (found["path"], found["line"], found["column"]) == place


@pytest.mark.timeout(5)  # looked at from every character of it, this would take much longer
@pytest.mark.parametrize("noise", ["a." * 500_000, "a" * 1_000_000, "error" * 200_000])
def test_noise_is_looked_at_once(noise: str) -> None:
    found = summarise(f"{noise}\nsrc/a.py:3: broken\n")
    assert [place["path"] for place in found["locations"]] == ["src/a.py"]


def test_every_list_has_at_most_eight_items_and_texts_are_short() -> None:
    text = "".join(
        f"FAILED tests/t{number}.py::test_x\nt{number}.py:{number + 1}: error {'y' * 500}\n"
        f"E   x{number}\n\n"
        for number in range(50)
    )
    summary = summarise(text)
    for name in ("failing_tests", "indicators", "locations", "snippets"):
        assert len(summary[name]) == 8
    assert max(len(place["text"]) for place in summary["locations"]) == 240
    assert max(map(len, summary["indicators"])) == 240


def test_a_summary_in_words_names_tests_and_places() -> None:
    words = in_words(summarise(PYTEST))
    assert words.startswith("Failure summary:\nFailing: tests/test_sum.py::test_adds, ")
    assert "tests/test_sum.py:7: tests/test_sum.py:7: AssertionError" in words


def test_without_places_the_telling_lines_are_shown() -> None:
    assert in_words(summarise("panic: oh no")) == "Failure summary:\npanic: oh no"


def test_output_that_tells_nothing_has_no_summary_in_words() -> None:
    assert in_words(summarise("nothing\n")) == ""
