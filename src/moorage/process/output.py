"""Shape captured output: cuts on character borders, cleaning, and clipping by whole lines.

Pure. What a token is as a unit of text is said here and nowhere else.
"""

from __future__ import annotations

import re

import msgspec

BYTES_PER_TOKEN = 4
"""A token, as a unit of text, is four UTF-8 bytes."""

_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80
_LONGEST_CONTINUATION = 3

# A string sequence (OSC, DCS, APC, PM, SOS) stops at the next introducer or line end: an unfinished
# one must not hide what follows it, and no introducer may be scanned for its end more than once.
# These are texts: the module keeps what it compiled, and most output needs none of them.
_ESCAPES = (
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\n\x80-\x9f]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]++[0-~]"
    r"|\x1b[0-~]"
    r"|[\x1b\x80-\x9f]"
)
_STRAY_CONTROLS = r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]"
_LINE_ENDS = r"(?<!\r)\r++\n"


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The beginning and the end of something longer; ``tail`` is empty when nothing is missing."""

    head: bytes
    tail: bytes = b""
    omitted_bytes: int = 0

    def join(self) -> bytes:
        """Return one text, with a line between the parts that says how much is missing."""
        if not self.omitted_bytes:
            return self.head
        gap = b"" if self.head.endswith(b"\n") else b"\n"
        return b"%b%b[... %d bytes omitted ...]\n%b" % (
            self.head,
            gap,
            self.omitted_bytes,
            self.tail,
        )


class Cleaned(msgspec.Struct, frozen=True):
    """Text as a terminal would leave it, and how many redrawn line states were dropped."""

    text: str
    redraws: int


class Clipped(msgspec.Struct, frozen=True):
    """Text within a budget, and how many lines were left out or shortened."""

    text: str
    omitted_lines: int


def token_count(text: str) -> int:
    """Return how many tokens a text takes."""
    return -(-_size(text) // BYTES_PER_TOKEN)


def head_end(data: bytes, limit: int) -> int:
    """Return the longest prefix, of at most ``limit`` bytes, that ends between two characters."""
    if limit >= len(data):
        return len(data)
    for cut in range(limit, max(limit - _LONGEST_CONTINUATION - 1, -1), -1):
        if not _continues(data[cut]):
            return cut
    return limit


def tail_start(data: bytes, limit: int) -> int:
    """Return where the longest suffix, of at most ``limit`` bytes, begins between characters."""
    first = len(data) - limit
    if first <= 0:
        return 0
    last = min(first + _LONGEST_CONTINUATION, len(data))
    for cut in range(first, last + 1):
        if cut == len(data) or not _continues(data[cut]):
            return cut
    return first


def excerpt(data: bytes, *, head_bytes: int, tail_bytes: int) -> Excerpt:
    """Return the data whole, or its head and tail when it is longer than both together."""
    if len(data) <= head_bytes + tail_bytes:
        return Excerpt(head=data)
    end, start = head_end(data, head_bytes), tail_start(data, tail_bytes)
    return Excerpt(head=data[:end], tail=data[start:], omitted_bytes=start - end)


def clean(text: str) -> Cleaned:
    """Return the text without escape sequences, control characters and overwritten line states."""
    if not text:
        return Cleaned("", 0)
    redraws = 0
    if "\x1b" in text or not text.isascii():
        text = re.sub(_ESCAPES, "", text)
    if "\r" in text:
        text, redraws = _collapse(re.sub(_LINE_ENDS, "\n", text))
    if "\b" in text:
        text = "\n".join(_overstrike(line) for line in text.split("\n"))
    if not text.replace("\n", "").replace("\t", "").isprintable():
        text = re.sub(_STRAY_CONTROLS, "", text)
    blank = len(text) - len(text.lstrip())
    return Cleaned(text[text.rfind("\n", 0, blank) + 1 :].rstrip(), redraws)


def clip_lines(text: str, *, budget_tokens: int, reference: str = "") -> Clipped:
    """Return the text within the budget: a third of it from the head, the rest from the tail.

    Whole lines are kept; only a line that is longer than its share is cut between characters. The
    line that stands for what is missing is not counted. It names ``reference`` when there is one.
    """
    if token_count(text) <= budget_tokens:
        return Clipped(text, 0)
    budget = budget_tokens * BYTES_PER_TOKEN
    lines = text.split("\n")
    head = _take_lines(lines, budget // 3)
    first = "\n".join(lines[:head]) if head else _first_bytes(lines[0], budget // 3)
    rest = lines[max(head, 1) :]
    tail = _take_lines(rest[::-1], budget - budget // 3)
    last = "\n".join(rest[-tail:]) if tail else _last_bytes(lines[-1], budget - budget // 3)
    omitted = len(lines) - head - tail
    where = f"; full log: {reference}" if reference else ""
    word = "line" if omitted == 1 else "lines"
    marker = f"[... {omitted} {word} omitted or shortened{where} ...]"
    return Clipped("\n".join(part for part in (first, marker, last) if part), omitted)


def _take_lines(lines: list[str], budget_bytes: int) -> int:
    """Return how many whole lines from the first one fit into the budget."""
    used = 0
    for count, line in enumerate(lines):
        used += _size(line) + 1
        if used > budget_bytes:
            return count
    return len(lines)


def _first_bytes(line: str, limit: int) -> str:
    data = line.encode("utf-8", "surrogatepass")
    return data[: head_end(data, limit)].decode("utf-8", "replace")


def _last_bytes(line: str, limit: int) -> str:
    data = line.encode("utf-8", "surrogatepass")
    return data[tail_start(data, limit) :].decode("utf-8", "replace")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _continues(byte: int) -> bool:
    return byte & _CONTINUATION_MASK == _CONTINUATION


def _collapse(text: str) -> tuple[str, int]:
    """Keep of each line what was drawn last; an empty state draws nothing."""
    redraws = 0
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "\r" in line:
            states = [state for state in line.split("\r") if state]
            redraws += max(len(states) - 1, 0)
            lines[number] = states[-1] if states else ""
    return "\n".join(lines), redraws


def _overstrike(line: str) -> str:
    """Return the line with every character that a backspace took back removed."""
    if "\b" not in line:
        return line
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)
