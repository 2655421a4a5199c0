from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cli import render


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A capable terminal; a test writes to it with ``redirect_stdout``."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@given(st.text())
def test_text_of_unknown_origin_reaches_no_terminal_as_control_characters(text: str) -> None:
    shown = render.one_line(text)
    assert not [character for character in shown if ord(character) < 32]
    assert not [character for character in shown if 127 <= ord(character) < 160]


def test_lines_and_tabs_stay_and_escapes_become_visible() -> None:
    assert render.many_lines("a\tb\r\n\x1b[31mred") == "a\tb\n\\x1b[31mred"


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [(0.4, "0 ms"), (999, "999 ms"), (1000, "1.0 s"), (59_900, "59.9 s"), (61_000, "1 min 1 s")],
)
def test_a_duration_is_written_as_people_write_it(milliseconds: float, expected: str) -> None:
    assert render.duration(milliseconds) == expected


def test_one_thing_is_singular_and_many_are_plural() -> None:
    assert render.count(1, "file") == "1 file"
    assert render.count(1200, "file") == "1,200 files"


def test_a_long_value_is_shortened_with_an_ellipsis() -> None:
    assert render.shortened("abcdef", 4) == "abc…"
    assert render.shortened("abcd", 4) == "abcd"


def test_colours_belong_on_a_terminal_only(terminal: Terminal) -> None:
    assert render.styled("x", stream=terminal, fg="red") == "\x1b[31mx\x1b[0m"
    assert render.styled("x", stream=io.StringIO(), fg="red") == "x"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_stay_away_when_the_user_says_so(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert render.styled("x", stream=terminal, fg="red") == "x"


def test_a_table_is_aligned_and_uncut_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_table(("A", "B"), [("one", "x" * 300), ("three", "")])
    assert capsys.readouterr().out == f"A      B\none    {'x' * 300}\nthree\n"


def test_a_table_fits_the_terminal(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        render.print_table(("A", "B"), [("one", "word " * 40)])
    lines = terminal.getvalue().splitlines()
    assert len(lines) > 2
    assert "one" in terminal.getvalue()


def test_a_column_that_is_empty_takes_no_room_on_a_terminal(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        render.print_table(("A", "NAME", "B"), [("one", "", "two")])
    assert "NAME" not in terminal.getvalue()


def test_a_table_of_markup_shows_the_markup(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        render.print_table(("A",), [("[bold]x[/bold]",)])
    assert "[bold]x[/bold]" in terminal.getvalue()


def test_json_is_one_readable_document(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_json({"a": [1], "ä": "ö"})
    assert capsys.readouterr().out == '{\n  "a": [\n    1\n  ],\n  "ä": "ö"\n}\n'


def test_fields_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_fields({"a": "1", "long": "", "x": "2\x1b"})
    assert capsys.readouterr().out == "a     1\nlong\nx     2\\x1b\n"


def test_remarks_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_note("a remark")
    render.print_failure("a failure")
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err == "moorage: a remark\nmoorage: a failure\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.9, "59 s"), (60, "1 min"), (3600 * 5, "5 h"), (86_400 * 30, "30 d")],
)
def test_an_age_has_its_largest_unit(seconds: float, text: str) -> None:
    assert render.age(seconds) == text
