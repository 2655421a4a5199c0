"""How one call of a session's record is drawn, whatever tool and age it has (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moorage.cli.render import duration, many_lines, one_line, shortened

if TYPE_CHECKING:
    from moorage.host.record import CallRecord

SHOWN_LINES = 12
"""Lines of output shown of one call; the last ones, where tools put their verdict."""

_DIFF_MARKS = {"equal": " ", "insert": "+", "delete": "-"}
_OUTPUT_KEYS = ("output", "text", "diff")


def heading(number: int, call: CallRecord) -> str:
    """Return one line: when, which tool, on what, and how it went."""
    facts = _facts(call)
    words = [
        f"{number:>3}",
        call.started_at.astimezone().strftime("%H:%M:%S"),
        call.name,
        _subject(facts),
        _ending(call, facts),
        duration(call.duration_ms),
    ]
    return "  ".join(one_line(word) for word in words if word)


def body(call: CallRecord, *, is_full: bool = False) -> list[str]:
    """Return the lines below the heading: the command, its output, the change."""
    facts = _facts(call)
    lines = list(_details(call, facts))
    if is_full or len(lines) <= SHOWN_LINES + 1:
        return lines
    head = lines[:1] if lines[0].startswith("$ ") else []
    kept = lines[len(lines) - SHOWN_LINES :]
    left_out = len(lines) - len(head) - len(kept)
    return [*head, f"… {left_out} lines; --full shows them", *kept]


def is_change(call: CallRecord) -> bool:
    """Return whether the lines of the call are those of a diff."""
    return isinstance(_facts(call).get("diff"), Mapping)


def _facts(call: CallRecord) -> Mapping[str, Any]:
    content = call.structured_content
    return content if isinstance(content, Mapping) else {}


def _subject(facts: Mapping[str, Any]) -> str:
    words = (facts.get(key) for key in ("path", "process_id", "pattern", "name", "subcommand"))
    return shortened(next((word for word in words if isinstance(word, str) and word), ""), 60)


def _ending(call: CallRecord, facts: Mapping[str, Any]) -> str:
    if call.error_code:
        return call.error_code
    outcome, exit_code = facts.get("outcome"), facts.get("exit_code")
    if outcome in (None, "exited") and isinstance(exit_code, int):
        return f"exit {exit_code}"
    state = outcome or facts.get("error_kind") or facts.get("status") or facts.get("action")
    if isinstance(state, str):
        return state
    return "error" if call.is_error else ""


def _details(call: CallRecord, facts: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(facts.get("command"), str):
        first, *more = many_lines(facts["command"]).rstrip("\n").split("\n")
        yield f"$ {first}"
        yield from (f"  {line}" for line in more)
    if is_change(call):
        yield from _diff(facts["diff"])
        return
    text = call.error or _output(facts) or _content(call)
    if text:
        yield from many_lines(text).rstrip("\n").split("\n")
    elif "command" not in facts and facts:
        yield shortened(one_line(json.dumps(facts, default=str)))


def _output(facts: Mapping[str, Any]) -> str:
    return next((facts[key] for key in _OUTPUT_KEYS if isinstance(facts.get(key), str)), "")


def _content(call: CallRecord) -> str:
    return "\n".join(part.text for part in call.content if part.text)


def _diff(diff: Mapping[str, Any]) -> Iterator[str]:
    """Draw the hunks of a change; a record of unknown form is drawn as far as it is understood."""
    for hunk in diff.get("hunks") or ():
        if not isinstance(hunk, Mapping):
            continue
        yield f"@@ -{hunk.get('old_start', 0)} +{hunk.get('new_start', 0)} @@"
        for line in hunk.get("lines") or ():
            if isinstance(line, Mapping):
                mark = _DIFF_MARKS.get(str(line.get("op")), " ")
                yield f"{mark} {many_lines(str(line.get('content', '')).rstrip())}"
    if diff.get("truncated"):
        yield f"… {one_line(str(diff.get('summary') or 'the diff is longer'))}"
