from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.tools.shell_words import split


def texts(command: str) -> list[list[str]] | None:
    line = split(command)
    return None if line is None else [[word.text for word in words] for words in line.commands]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", [[]]),
        ("  ls   -la ", [["ls", "-la"]]),
        ("echo 'a b' \"c d\" e\\ f", [["echo", "a b", "c d", "e f"]]),
        ('echo "say \\"hi\\" \\n"', [["echo", 'say "hi" \\n']]),
        ("a=b'c'\"d\"", [["a=bcd"]]),
        ("cd x && make test", [["cd", "x"], ["make", "test"]]),
        ("a | b; c || d & e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("pytest 2>&1 > out.txt >>log <in &>all", [["pytest"]]),
        ("(cd x)", [[], ["cd", "x"], []]),
        ("echo $HOME", [["echo", "$HOME"]]),
    ],
)
def test_a_line_is_split_as_a_shell_would(command: str, words: list[list[str]]) -> None:
    assert texts(command) == words


@pytest.mark.parametrize(
    "command", ["echo `ls`", "echo $(ls)", "diff <(a) b", "echo 'open", 'echo "open', "cat <<EOF"]
)
def test_a_line_that_cannot_be_split_for_sure_is_not_split(command: str) -> None:
    assert split(command) is None


def test_a_word_knows_where_it_stands() -> None:
    command = "  npx 'a b' c"
    line = split(command)
    assert line is not None
    word = line.commands[0][1]
    assert command[word.start : word.end] == "'a b'"


def test_operators_are_kept_in_order() -> None:
    line = split("a && b || c; d | e &")
    assert line is not None
    assert line.operators == ("&&", "||", ";", "|", "&")


@pytest.mark.parametrize(
    ("word", "is_literal"),
    [
        *[("{a,b}", False), ("{1..3}", False), ("{a{b},c}", False), ("x{a,", False)],
        *[("{a}", True), ("a,b", True), ("}a,b{", True), ("HEAD@{1}", True), ("'{a,b}'", True)],
    ],
)
def test_braces_with_a_choice_or_a_range_are_expanded(word: str, is_literal: bool) -> None:
    line = split(f"echo {word}")
    assert line is not None
    assert line.commands[0][1].is_literal is is_literal


@pytest.mark.timeout(5)  # looked at once for each brace, this would take minutes
def test_many_open_braces_are_looked_at_once() -> None:
    line = split("echo " + "{" * 130_000)
    assert line is not None
    assert line.is_plain


@given(st.text(alphabet="ab '\"\\|&;<>$`()\n", max_size=40))
def test_no_text_makes_it_fail(command: str) -> None:
    line = split(command)
    assert line is None or len(line.commands) == len(line.operators) + 1
