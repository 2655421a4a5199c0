"""A parsed pattern as a Python expression, and how much work it can make of one line at worst.

Python's engine tries one way after another, so some patterns take it quadratic, cubic or
exponential time, and nothing can interrupt it. The bound found here says up to which line length it
is safe; beyond that the automaton, which reads each character once, takes over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import assert_never

from moorage.workspace.scanning.pattern import WORD, Character, Choice, Edge, Node, Repeat, Row

# About two seconds of the slowest steps; a line that needs more is adversarial, not text.
_MAX_STEPS = 2.5e8
# Longer lines are no text that anyone reads.
LONGEST_LINE = 1024 * 1024
# A repetition up to this count is tried as alternatives; a longer one behaves as if unbounded.
_FEW = 8
# Python counts fewer characters as parts of words, and finds no edge in an empty text.
_EDGES = {
    "^": "^",
    "$": "$",
    r"\b": rf"(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))",
    r"\B": rf"(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))",
}


def python_source(node: Node, *, is_ascii: bool = False) -> str:
    """Return the source of an equal Python expression, to be compiled with ``MULTILINE``.

    With ``is_ascii`` it is right only for text in ASCII, and faster.
    """
    match node:
        case Character(source, ignores_case):
            return f"(?i:{source})" if ignores_case else source
        case Edge(source):
            return source if is_ascii and source != r"\B" else _EDGES[source]
        case Row(parts):
            return "".join(_grouped_choice(part, is_ascii=is_ascii) for part in parts)
        case Choice(options):
            return "|".join(python_source(option, is_ascii=is_ascii) for option in options)
        case Repeat(part, least, most, is_lazy):
            bounds = f"{{{least},{'' if most is None else most}}}{'?' if is_lazy else ''}"
            return f"(?:{python_source(part, is_ascii=is_ascii)}){bounds}"
        case _:
            assert_never(node)


def compile_python(node: Node, *, is_ascii: bool = False) -> re.Pattern[str]:
    """Return the expression that finds the pattern in a text of many lines."""
    return re.compile(python_source(node, is_ascii=is_ascii), re.MULTILINE)


def longest_safe_line(node: Node) -> int:
    """Return up to how many characters of a line Python's engine may be trusted; 0 is never."""
    ways, free_repeats = _work(node)
    if ways > 4096:
        return 0
    steps = _MAX_STEPS / max(ways, 1)
    return min(LONGEST_LINE, int(steps ** (1 / (free_repeats + 1))))


def widened(node: Node) -> Node:
    """Return a pattern that matches wherever ``node`` does, and without its costly repetitions.

    A repetition of something complicated becomes one of the characters that occur in it. What it
    does not find need not be looked for in a slower way.
    """
    match node:
        case Row(parts):
            return Row(tuple(map(widened, parts)))
        case Choice(options):
            return Choice(tuple(map(widened, options)))
        case Repeat(part, least, most, is_lazy):
            if _work(node)[0] < float("inf"):
                return node
            if most == 1:
                return Repeat(widened(part), least, most, is_lazy)
            sources = sorted({python_source(character) for character in _characters(part)})
            # Atomic: a character that is in two of them must not be tried twice.
            return Repeat(Character(f"(?>{'|'.join(sources)})"), 0, None, is_lazy=False)
        case _:
            return node


def required_text(node: Node) -> str:
    """Return the longest text known to be part of every match; without it, nothing matches."""
    match node:
        case Row(parts):
            texts = [""]
            for part in parts:
                plain = _plain(part)
                if plain:
                    texts[-1] += plain
                elif not isinstance(part, Edge):
                    texts += [required_text(part), ""]
            return max(texts, key=len)
        case Repeat(part, least) if least:
            return required_text(part)
        case _:
            return _plain(node)


def _plain(node: Node) -> str:
    """Return the one text that a character matches, if it is one."""
    if not isinstance(node, Character) or node.ignores_case:
        return ""
    is_escape = len(node.source) == 2 and node.source[0] == "\\"
    return node.source[1:] if is_escape else node.source if len(node.source) == 1 else ""


def _characters(node: Node) -> Iterator[Character]:
    match node:
        case Character():
            yield node
        case Row(parts) | Choice(parts):
            for part in parts:
                yield from _characters(part)
        case Repeat(part):
            yield from _characters(part)
        case _:
            return


def _grouped_choice(node: Node, *, is_ascii: bool) -> str:
    source = python_source(node, is_ascii=is_ascii)
    return f"(?:{source})" if isinstance(node, Choice) else source


def _work(node: Node) -> tuple[float, int]:
    """Return how many ways there are at one place, and how many repetitions run freely."""
    match node:
        case Character() | Edge():
            return 1, 0
        case Row(parts):
            ways, free = 1.0, 0
            for part in parts:
                part_ways, part_free = _work(part)
                ways, free = ways * part_ways, free + part_free
            return ways, free
        case Choice(options):
            found = [_work(option) for option in options]
            return sum(ways for ways, _ in found), max(free for _, free in found)
        case Repeat(part, least, most, _):
            return _repeated_work(_work(part), least, most)
        case _:
            assert_never(node)


def _repeated_work(inner: tuple[float, int], least: int, most: int | None) -> tuple[float, int]:
    ways, free = inner
    is_fixed = most == least
    if (ways > 1 or free) and not (most is not None and most <= 1):
        return float("inf"), 0  # a choice inside a repetition: exponential in the worst case
    if is_fixed or most == 1:
        return ways + (not is_fixed), free
    if most is not None and most - least <= _FEW:
        return most - least + 1, 0
    return 1, 1
