"""Finds a pattern in one line by reading each character once, whatever the pattern.

A non-deterministic automaton whose sets of states are remembered as they turn up. Slower than
Python's own engine on plain text and safe where that one takes exponential time.
"""

from __future__ import annotations

import re
from typing import NamedTuple, assert_never

from moorage.workspace.scanning.pattern import (
    WORD,
    Character,
    Choice,
    Edge,
    Node,
    Repeat,
    Row,
)
from moorage.workspace.search.selection import PatternError

_MAX_NODES = 20_000
# Remembered sets of states; when they are more, all are forgotten and the search goes on.
_MAX_STATES = 4_000
_MATCHED = -1
_END = -1
_IN_WORD = re.compile(f"[{WORD}]")


class _Step(NamedTuple):
    """A node of the automaton: go on to ``following`` if ``test`` holds.

    ``test`` is the number of a character set, or an edge's source, or None for a free step.
    """

    test: int | str | None
    following: tuple[int, ...]


class _State(NamedTuple):
    """Nodes before the next character is known, and what the last one was."""

    nodes: frozenset[int]
    is_at_start: bool
    is_after_word: bool


class Automaton:
    """A pattern, ready to be looked for."""

    def __init__(self, node: Node) -> None:
        """Build the automaton.

        Raises:
            PatternError: counted repetitions make it too large.
        """
        self._sets: dict[Character, int] = {}
        self._tests: list[re.Pattern[str]] = []
        self._steps: list[_Step] = [_Step(None, ())]  # node 0 is the match
        self._first = self._build(node, 0)
        self._symbols: dict[str, int] = {}
        self._kinds: dict[tuple[frozenset[int], bool], int] = {}
        self._kind_list: list[tuple[frozenset[int], bool]] = []
        self._forget()

    def find(self, line: str) -> int:
        """Return where the match that ends first ends, or -1 without a match."""
        symbols = self._symbols
        state = self._start
        for at, char in enumerate(line):
            symbol = symbols.get(char)
            if symbol is None:
                symbol = symbols[char] = self._classify(char)
            following = self._table[state].get(symbol)
            if following is None:
                following = self._advance(state, symbol)
            if following == _MATCHED:
                return at
            state = following
        end = self._table[state].get(_END)
        if end is None:
            end = self._advance(state, _END)
        return len(line) if end == _MATCHED else -1

    def _build(self, node: Node, following: int) -> int:
        """Add the steps of ``node`` before ``following`` and return the first."""
        match node:
            case Character():
                return self._add(self._number(node), following)
            case Edge(source):
                return self._add(source, following)
            case Row(parts):
                for part in reversed(parts):
                    following = self._build(part, following)
                return following
            case Choice(options):
                return self._add(None, *[self._build(option, following) for option in options])
            case Repeat(part, least, most, _):
                return self._build_repeat(part, least, most, following)
            case _:
                assert_never(node)

    def _build_repeat(self, part: Node, least: int, most: int | None, following: int) -> int:
        if most is None:
            loop = self._add(None)
            self._steps[loop] = _Step(None, (self._build(part, loop), following))
            following = loop
        else:
            for _ in range(most - least):
                following = self._add(None, self._build(part, following), following)
        for _ in range(least):
            following = self._build(part, following)
        return following

    def _add(self, test: int | str | None, *following: int) -> int:
        if len(self._steps) >= _MAX_NODES:
            raise PatternError("the counted repetitions make the pattern too large")
        self._steps.append(_Step(test, following))
        return len(self._steps) - 1

    def _number(self, character: Character) -> int:
        if character not in self._sets:
            self._sets[character] = len(self._tests)
            flags = re.IGNORECASE if character.ignores_case else re.NOFLAG
            self._tests.append(re.compile(character.source, flags))
        return self._sets[character]

    def _classify(self, char: str) -> int:
        """Return the symbol of a character: which sets hold it, and whether it is of a word."""
        members = frozenset(i for i, test in enumerate(self._tests) if test.fullmatch(char))
        kind = (members, _IN_WORD.match(char) is not None)
        symbol = self._kinds.setdefault(kind, len(self._kind_list))
        if symbol == len(self._kind_list):
            self._kind_list.append(kind)
        return symbol

    def _forget(self) -> None:
        self._states: dict[_State, int] = {}
        self._state_list: list[_State] = []
        self._table: list[dict[int, int]] = []
        self._start = self._remember(_State(frozenset(), is_at_start=True, is_after_word=False))

    def _remember(self, state: _State) -> int:
        known = self._states.get(state)
        if known is not None:
            return known
        self._states[state] = len(self._state_list)
        self._state_list.append(state)
        self._table.append({})
        return len(self._state_list) - 1

    def _advance(self, number: int, symbol: int) -> int:
        """Return the state after ``symbol``, or that a match ends before it."""
        state = self._state_list[number]
        members, is_word = (frozenset[int](), False) if symbol == _END else self._kind_list[symbol]
        nodes = self._reach(state, is_at_end=symbol == _END, is_before_word=is_word)
        if 0 in nodes:
            self._table[number][symbol] = _MATCHED
            return _MATCHED
        taken = frozenset(
            self._steps[node].following[0] for node in nodes if self._steps[node].test in members
        )
        following = _State(taken, is_at_start=False, is_after_word=is_word)
        if len(self._state_list) >= _MAX_STATES and following not in self._states:
            self._forget()
            return self._remember(following)
        self._table[number][symbol] = self._remember(following)
        return self._table[number][symbol]

    def _reach(self, state: _State, *, is_at_end: bool, is_before_word: bool) -> set[int]:
        """Return the nodes that can be reached without a character; a match may begin anywhere."""
        holds = {
            "^": state.is_at_start,
            "$": is_at_end,
            r"\b": state.is_after_word != is_before_word,
            r"\B": state.is_after_word == is_before_word,
        }
        reached: set[int] = set()
        waiting = [self._first, *state.nodes]
        while waiting:
            node = waiting.pop()
            if node in reached:
                continue
            reached.add(node)
            test = self._steps[node].test
            if test is None or (isinstance(test, str) and holds[test]):
                waiting.extend(self._steps[node].following)
        return reached
