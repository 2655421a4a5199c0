"""The commands under torture, as shell text; everything they start carries the run's token."""

from __future__ import annotations

import random

from torture.content import DIGITS

VARIABLE = "MOORAGE_TORTURE"
LAST_WORD = "quit"
"""Typed to an echo, it ends it."""

# Nobody of it ends softly; two leave group and session, and one of them loses its parent, too.
_TREE = """trap '' TERM HUP
( trap '' TERM HUP; exec sleep 900 ) &
setsid bash -c "trap '' TERM HUP; exec sleep 900" &
( setsid bash -c "trap '' TERM HUP; exec sleep 900" & )
"""


def _marked(tag: str, token: str, text: str) -> str:
    return f"export {VARIABLE}={token}; : {tag} ;\n{text}"


def _lines(tag: str, first: int | str, last: int | str) -> str:
    return f"seq -f '{tag} %0{DIGITS}.0f' {first} {last}"


def printer(rng: random.Random, tag: str, token: str, lines: int) -> str:
    """Return a command that prints so many lines in a few bursts, and may leave others behind."""
    cuts = sorted({lines, *(rng.randint(1, lines) for _ in range(rng.randint(0, 3)))})
    parts, first = [], 1
    for last in cuts:
        parts += [_lines(tag, first, last), f"sleep {rng.choice(('0', '0.1', '0.3'))}"]
        first = last + 1
    if rng.random() < 0.2:
        parts.append("setsid sleep 900 &")
    return _marked(tag, token, "\n".join(parts))


def slow_printer(tag: str, token: str, seconds: int) -> str:
    """Return a command that prints ten lines a second, for so many seconds."""
    line = _lines(tag, "$at", "$at")
    return _marked(tag, token, f"for at in $(seq {seconds * 10}); do {line}; sleep 0.1; done")


def echo(tag: str, token: str, *, is_terminal: bool) -> str:
    """Return a command that prints a first line, then repeats every line it is given."""
    quiet = "stty -echo\n" if is_terminal else ""
    is_more = f'IFS= read -r line && [ "$line" != {LAST_WORD} ]'
    loop = f"while {is_more}; do printf '%s\\n' \"$line\"; done"
    return _marked(tag, token, f"{quiet}{_lines(tag, 1, 1)}\n{loop}")


def tree(tag: str, token: str) -> str:
    """Return a command that starts stubborn descendants, prints a line, and never ends."""
    return _marked(tag, token, f"{_TREE}{_lines(tag, 1, 1)}\nexec sleep 900")
