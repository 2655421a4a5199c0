"""Pages of long answers: what a call must say to get one, what it says of itself, what is shown.

The first page needs nothing. A later one needs the snapshot token of the first, so that a page of
another answer is an error and not a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moorage.errors import InvalidArguments
from moorage.process.output import BYTES_PER_TOKEN
from moorage.protocol.tool_calls import ToolResult
from moorage.tools.results import failure

VIEW_TOKENS = 2048
"""What the model is shown of a tool's answer, except of read_file and bash."""

HIGHEST_OFFSET = 10**9
"""More than any answer has."""

VIEW_BYTES = VIEW_TOKENS * BYTES_PER_TOKEN

# What is set aside for the sentence that says how to go on.
_FOOTER_BYTES = 256


def check_page(offset: int, expected_revision: str | None) -> None:
    """Return when the arguments name a page.

    Raises:
        InvalidArguments: the offset is negative, or not zero and without the token of page one.
    """
    if not 0 <= offset <= HIGHEST_OFFSET:
        raise InvalidArguments(f"offset is {offset}; it is a number from 0 to {HIGHEST_OFFSET}.")
    if offset and not expected_revision:
        raise InvalidArguments(
            f"offset is {offset} and expected_revision is missing.",
            hint="Pass the snapshot_token of the first page, or start at offset 0.",
        )


def is_stale(offset: int, expected_revision: str | None, token: str) -> bool:
    """Return whether a later page belongs to an answer that is no more."""
    return offset > 0 and expected_revision != token


def stale(what: str) -> ToolResult:
    """Return the error that a later page no longer fits."""
    return failure(
        "stale_snapshot",
        f"{what} changed since the first page, so this page would not fit it. Start again at "
        "offset 0.",
    )


def too_deep(offset: int) -> ToolResult:
    """Return the error that a page lies too deep in the answer."""
    return failure(
        "page_too_deep",
        f"The page at offset {offset} lies too deep in the answer. Narrow the call instead.",
    )


def too_slow(seconds: float) -> ToolResult:
    """Return the error that looking took too long."""
    return failure(
        "timed_out",
        f"Nothing is returned: looking took longer than {seconds:g} s. Name a smaller folder, or "
        "a simpler pattern.",
    )


def page_facts(offset: int, returned: int, total: int, token: str) -> dict[str, Any]:
    """Return what a page says of itself."""
    has_more = offset + returned < total
    return {
        "total": total,
        "returned_count": returned,
        "has_more": has_more,
        "page": {
            "offset": offset,
            "returned": returned,
            "has_more": has_more,
            "snapshot_token": token,
            "next": offset + returned if has_more else None,
        },
    }


def unnamed(count: int, one: str, many: str) -> list[str]:
    """Return the note that protected things are counted and not named, if there are any."""
    if not count:
        return []
    return [f"{count} protected {f'{one} is' if count == 1 else f'{many} are'} not named"]


def page_view(
    items: Sequence[str], facts: dict[str, Any], noun: str, notes: Sequence[str] = ()
) -> str:
    """Return as many items as the view holds, at least one, and how to see the others.

    An item is one or more lines; it is never shown in part, unless it alone is too long.
    """
    page = facts["page"]
    ending = "".join(f"\n[{note}]" for note in notes)
    room = VIEW_BYTES - len(ending.encode())
    shown, size = 0, 0
    for item in items:
        size += len(item.encode("utf-8", "replace")) + 1
        is_last = shown + 1 == len(items) and not page["has_more"]
        if size > room - (0 if is_last else _FOOTER_BYTES):
            break
        shown += 1
    text = "\n".join(items[:shown])
    if items and not shown:
        text, shown = _beginning(items[0], room - _FOOTER_BYTES), 1
    if shown < len(items) or page["has_more"]:
        ending += _footer(page, shown, facts["total"], noun)
    return (text + ending).lstrip("\n")


def _footer(page: dict[str, Any], shown: int, total: int, noun: str) -> str:
    following = page["offset"] + shown
    counted = f"{noun} {page['offset'] + 1}-{following} of {total}" if shown else f"{total} {noun}"
    rest = (
        f'; go on with offset={following}, expected_revision="{page["snapshot_token"]}"'
        if following < total
        else ""
    )
    return f"\n[{counted}{rest}]"


def _beginning(text: str, max_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text
    kept = data[:max_bytes].decode("utf-8", "ignore")
    return f"{kept}\n[{len(data) - len(kept.encode())} bytes of this are not shown]"
