"""The start of our own engine: Python, with ``scanning.program``, in place of ripgrep.

A pattern can keep Python's engine busy for ever, and nothing in its process can interrupt it. So
it runs as a command of its own, confined and ended as any other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from moorage.workspace.own_program import own_argv
from moorage.workspace.search.selection import Include, Query, SearchPlace

_PROGRAM = "moorage.workspace.scanning.program"


class OwnEngine:
    """Our own engine as a program that searches; it prints what ripgrep would."""

    name = "the search engine of Moorage"
    # 1 is how Python ends by an error of ours.
    exit_codes = frozenset({0, 2})

    def count_argv(self, place: SearchPlace, query: Query) -> tuple[str, ...]:
        """Return the argument vector that counts matching lines per file."""
        return _argv("count", place, query)

    def lines_argv(
        self,
        place: SearchPlace,
        query: Query,
        *,
        paths: Sequence[bytes] | None = None,
        most: int | None = None,
    ) -> tuple[str, ...]:
        """Return the argument vector that prints matching lines in JSON.

        With ``paths`` it searches only these files below the place, and at most ``most`` matches
        of each.
        """
        argv = _argv("lines", place, query, most=most)
        return (*argv, *map(os.fsdecode, () if place.is_file else paths or ()))

    def files_argv(self, place: SearchPlace) -> tuple[str, ...]:
        """Return the argument vector that lists the files that a search would read."""
        return _argv("files", place, Query(pattern="", include=Include()))

    def reason(self, complaint: bytes) -> str:
        """Return what is said of a pattern."""
        return complaint.decode("utf-8", "replace").strip()


def _argv(
    action: str, place: SearchPlace, query: Query, *, most: int | None = None
) -> tuple[str, ...]:
    request = {
        "action": action,
        "is_file": place.is_file,
        "absolute": place.absolute,
        "excluded": place.excluded,
        "name_glob": query.include.name_glob,
        "ignore_case": query.ignore_case,
        "before": query.before,
        "after": query.after,
        "most": most,
    }
    return own_argv(_PROGRAM, json.dumps(request), query.pattern)
