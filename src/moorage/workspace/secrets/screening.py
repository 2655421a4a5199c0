"""Screen bytes for the literals without which there is no secret, before any pattern is compiled.

Most output has none of them, so the patterns are imported when the first literal is found: making
them takes longer than a short command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.workspace.secrets.byte_search import holds
from moorage.workspace.secrets.spans import BEARER, KEYS, PREFIX, WEB_TOKEN, Span, merged

if TYPE_CHECKING:
    from moorage.workspace.secrets.private_keys import Verdict


def may_hold_secret(data: bytes) -> bool:
    """Return whether data holds any byte that every kind of secret needs one of; very fast."""
    return (
        b":" in data or b"=" in data or b"-" in data or b"." in data or b"b" in data or b"B" in data
    )


def find_spans(block: bytes) -> list[Span]:
    """Return the secrets in a block, in order and without overlaps."""
    # Single bytes are found ten times faster than words, so they decide whether words are sought.
    if not may_hold_secret(block):
        return []
    lowered = block.lower()
    literals = [BEARER] if holds(lowered, BEARER) else []
    if b":" in block or b"=" in block:
        literals += [word for word in KEYS if holds(lowered, word)]
    if b"-" in block and holds(lowered, PREFIX):
        literals.append(PREFIX)
    if b"." in block and holds(block, WEB_TOKEN):
        literals.append(WEB_TOKEN)
    if not literals:
        return []
    from moorage.workspace.secrets.kinds import find_kinds  # noqa: PLC0415 - see above

    return merged(find_kinds(block, lowered, literals))


def judge_key(window: bytes, *, is_complete: bool) -> Verdict | None:
    """Return whether a private key begins with the window, which starts at ``KEY_HEADER``."""
    from moorage.workspace.secrets import private_keys  # noqa: PLC0415 - see above

    return private_keys.judge_key(window, is_complete=is_complete)
