"""Find in the output of a failed check what failed, where, and what it said. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_MOST_ITEMS = 8
_LONGEST_TEXT = 240

_FAILING_TESTS = re.compile(
    r"^(?:"
    r"[ \t]*--- FAIL: (?P<go>\S+)"
    r"|FAIL\t(?P<go_package>\S+)"
    r"|(?:FAILED|ERROR) (?P<pytest>\S+)"
    r"|(?:FAIL|ERROR): (?P<unittest>\S+)"
    r"|[ \t]*(?:FAIL|[\u2715\u2717\u00d7])[ \t]+(?P<js>\S.*)"
    r"|test (?P<rust>\S+) \.\.\. FAILED"
    r")",
    re.MULTILINE,
)
_INDICATORS = re.compile(
    r"^.*\b(?:assert(?:ion)?|assertion\w*|expected|panic\w*|error\w*|failed|exception)\b.*$",
    re.MULTILINE | re.IGNORECASE,
)
_LOCATIONS = re.compile(
    r"(?<![\w@./+-])(?P<path>[\w@./+-]{1,200}\.[A-Za-z]\w{0,4})"
    r"(?::(?P<line>\d{1,7})(?::(?P<column>\d{1,5}))?|\((?P<ts_line>\d{1,7}),(?P<ts_column>\d{1,5})\))"
    r"|File \"(?P<py_path>[^\"\n]{1,200})\", line (?P<py_line>\d{1,7})"
)
_SNIPPETS = re.compile(r"(?:^E[ \t]{2,}.*\n?)+", re.MULTILINE)


def summarise(text: str) -> dict[str, Any]:
    """Return the failing tests, telling lines, places and excerpts; at most eight of each."""
    return {
        "failed": True,
        "failing_tests": _first(_failing_tests(text)),
        "indicators": _first(match[0].strip()[:_LONGEST_TEXT] for match in _lines_of(text)),
        "locations": _first_places(text),
        "snippets": _first(_snippets(text)),
    }


def in_words(summary: dict[str, Any]) -> str:
    """Return a summary as the few lines that a view shows."""
    lines: list[str] = []
    if summary["failing_tests"]:
        lines.append("Failing: " + ", ".join(summary["failing_tests"]))
    lines += [
        f"{place['path']}:{place['line']}: {place['text']}".rstrip(": ")
        for place in summary["locations"]
    ]
    if not summary["locations"]:
        lines += summary["indicators"]
    return "\n".join(["Failure summary:", *lines]) if lines else ""


def _first(items: Iterator[str]) -> list[str]:
    found: dict[str, None] = {}
    for item in items:
        if item:
            found.setdefault(item)
        if len(found) == _MOST_ITEMS:
            break
    return list(found)


def _failing_tests(text: str) -> Iterator[str]:
    for match in _FAILING_TESTS.finditer(text):
        yield next(name for name in match.groups() if name is not None).strip()[:_LONGEST_TEXT]


def _lines_of(text: str) -> Iterator[re.Match[str]]:
    return _INDICATORS.finditer(text)


def _first_places(text: str) -> list[dict[str, Any]]:
    places: dict[tuple[str, int], dict[str, Any]] = {}
    for match in _LOCATIONS.finditer(text):
        path = match["path"] or match["py_path"]
        line = int(match["line"] or match["ts_line"] or match["py_line"])
        column = match["column"] or match["ts_column"]
        begin = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        shown = text[begin : end if end >= 0 else len(text)].strip()[:_LONGEST_TEXT]
        place = {"path": path, "line": line, "column": int(column or 0), "text": shown}
        places.setdefault((path, line), place)
        if len(places) == _MOST_ITEMS:
            break
    return list(places.values())


def _snippets(text: str) -> Iterator[str]:
    for match in _SNIPPETS.finditer(text):
        yield match[0].strip()[:_LONGEST_TEXT]
