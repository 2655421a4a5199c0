"""The automaton finds what Python's engine finds, in time that only grows with the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.workspace.scanning import automaton as automaton_module
from moorage.workspace.scanning.automaton import Automaton
from moorage.workspace.scanning.expression import compile_python, required_text, widened
from moorage.workspace.scanning.pattern import parse
from moorage.workspace.search.selection import PatternError

ATOMS = ("a", "b", "ab", ".", "[^a]", r"\w", r"\W", r"\b", r"\B", "^", "$", "(?i:A)", r"\s", "")
patterns = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(("*", "+?", "?", "{2}", "{1,3}"))).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
lines = st.text(st.sampled_from("abA _.\u00e9\u0301"), max_size=8)


@given(patterns, lines)
def test_both_engines_agree_on_every_line(pattern: str, line: str) -> None:
    node = parse(pattern)
    found = compile_python(node).search(line)
    assert (Automaton(node).find(line) >= 0) == (found is not None)


@given(patterns, lines)
def test_a_widened_pattern_matches_wherever_the_pattern_does(pattern: str, line: str) -> None:
    node = parse(pattern)
    if compile_python(node).search(line) is not None:
        assert compile_python(widened(node)).search(line) is not None


@given(patterns, lines)
def test_every_match_contains_the_required_text(pattern: str, line: str) -> None:
    node = parse(pattern)
    found = compile_python(node).search(line)
    if found is not None:
        assert required_text(node) in found[0]


def test_it_tells_where_the_match_that_ends_first_ends() -> None:
    assert Automaton(parse("b+")).find("aabbb") == 3
    assert Automaton(parse("b+$")).find("aabbb") == 5
    assert Automaton(parse("")).find("x") == 0
    assert Automaton(parse("c")).find("ab") == -1


def test_what_takes_exponential_time_elsewhere_is_read_once() -> None:
    node = parse("(a+)+$|(a|aa)+b|(?:x?){25}x{25}y")
    assert Automaton(node).find("a" * 5000 + "!") == -1
    assert Automaton(node).find("a" * 5000) == 5000


def test_it_forgets_rather_than_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automaton_module, "_MAX_STATES", 4)
    machine = Automaton(parse("(?:a|b)*a(?:a|b){6}c"))
    line = "abbabaabbbabaaab" * 10
    assert machine.find(line) == -1
    assert machine.find(f"{line}abababac") == len(line) + 8
    assert len(machine._state_list) <= 4


def test_a_pattern_that_counts_too_far_is_an_error() -> None:
    with pytest.raises(PatternError, match="too large"):
        Automaton(parse("(?:a{1000}){1000}"))
