"""Number the lines of a file for the model and keep them within a budget; pure.

The first shown line and each line whose number ends in 0 carry their number before a bar; the
others carry only the bar. That places every line and costs few tokens.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import msgspec

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The text for the model, how many lines of it there are, and whether the last one is cut."""

    text: str
    shown_lines: int
    is_line_cut: bool = False


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text`` without their ends; only LF and CRLF end a line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if "\r" in text:
        return [line.removesuffix("\r") for line in lines]
    return lines


def numbered_view(text: str, start_line: int, budget_bytes: int) -> View:
    """Return as many numbered lines of ``text`` as the budget holds, at least a part of one."""
    lines = split_lines(text.removeprefix(_BOM) if start_line == 1 else text)
    numbered = [
        f"{number}|{line}" if number == start_line or number % 10 == 0 else f"|{line}"
        for number, line in enumerate(lines, start_line)
    ]
    whole = "\n".join(numbered)
    # Four bytes a character at most: most texts need no encoding to be measured.
    if len(whole) * 4 <= budget_bytes or _size(whole) <= budget_bytes:
        return View(text=whole, shown_lines=len(lines))
    shown = _count_fitting(numbered, budget_bytes)
    if shown:
        return View(text="\n".join(numbered[:shown]), shown_lines=shown)
    part = numbered[0].encode("utf-8", "replace")[:budget_bytes].decode("utf-8", "ignore")
    return View(text=part, shown_lines=1, is_line_cut=True)


def _count_fitting(numbered: list[str], budget_bytes: int) -> int:
    ends = list(accumulate(_size(line) + 1 for line in numbered))
    return bisect_right(ends, budget_bytes + 1)  # the last line needs no line end


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
