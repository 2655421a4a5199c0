"""The start of our own engine: Python, with ``scanning.program``, in place of ripgrep.

A pattern can keep Python's engine busy for ever, and nothing in its process can interrupt it. So
it runs as a command of its own, confined and ended as any other.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import moorage
from moorage.workspace.search.selection import Include, Query, SearchPlace

# Nothing of the user's Python setup counts, only where the worker itself finds its modules.
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split('\\n'); "
    "from moorage.workspace.scanning.program import main; main()"
)


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
    home = os.path.dirname(os.path.dirname(moorage.__file__))
    folders = "\n".join([home, *filter(os.path.isabs, sys.path)])
    # -I and -S leave the user's variables and site folders out; names are always in UTF-8.
    python = (sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, folders)
    return (*python, json.dumps(request), query.pattern)
