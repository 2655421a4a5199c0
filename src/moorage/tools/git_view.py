"""What a model reads of git's output, within a budget. Pure."""

from __future__ import annotations

import msgspec

from moorage.tools.paging import VIEW_BYTES
from moorage.workspace.git.status import ChangedFile, Status

_NOTE_BYTES = 128
_LETTERS = {
    "added": "A",
    "modified": "M",
    "deleted": "D",
    "renamed": "R",
    "copied": "C",
    "type changed": "T",
    "unmerged": "U",
}


class GitLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds one call of git."""

    timeout_seconds: float = 30.0
    # What is kept of the output; a reading call ends when there is more.
    output_bytes: int = 64 * 1024
    # The names of all files that an add would stage.
    listing_bytes: int = 16 * 1024 * 1024


def shown_text(text: str, complaint: str = "", *, is_cut: bool = False) -> str:
    """Return the text by whole lines within the view's budget, and what else there is."""
    data = text.rstrip("\n").encode("utf-8", "replace")
    notes = [complaint[-1024:]] if complaint else []
    room = VIEW_BYTES - _NOTE_BYTES - sum(len(note.encode("utf-8", "replace")) for note in notes)
    if len(data) > room or is_cut:
        kept = data[:room]
        kept = kept[: kept.rfind(b"\n") + 1] or kept
        more = "more than " if is_cut else ""
        notes.append(
            f"[{more}{len(data) - len(kept)} bytes are not shown; name paths, or ask for less]"
        )
        data = kept.rstrip(b"\n")
    parts = [data.decode("utf-8", "ignore"), *notes]
    return "\n".join(part for part in parts if part) or "(no output)"


def status_text(status: Status) -> str:
    """Return a status as one line for each file."""
    lines = [f"On branch {status.branch}" if status.branch != "(detached)" else "HEAD is detached"]
    if status.upstream:
        lines[0] += f", {status.ahead} ahead of and {status.behind} behind {status.upstream}"
    for heading, files in (
        ("Staged", status.staged),
        ("Unstaged", status.unstaged),
        ("Unmerged", status.unmerged),
    ):
        if files:
            lines += [f"{heading}:", *map(_line, files)]
    if status.untracked:
        lines += ["Untracked:", *(f"  ?  {path}" for path in status.untracked)]
    if status.is_clean:
        lines.append("Nothing differs.")
    return "\n".join(lines)


def _line(file: ChangedFile) -> str:
    moved = f"{file.old_path} -> " if file.old_path else ""
    return f"  {_LETTERS[file.change]}  {moved}{file.path}"
