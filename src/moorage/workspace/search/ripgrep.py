"""ripgrep's side of a search: its argument vectors.

Pure: starting it is ``by_program``'s affair. The user's configuration is not read, hidden files are
searched, and what ``ignore`` says is never entered is left out here by the same names.
"""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterable, Sequence

from moorage.workspace.search.ignore import SKIPPED_FOLDERS, SKIPPED_NAMES
from moorage.workspace.search.selection import Include, Query, SearchPlace

_PLAIN_FLAGS = (
    "--no-config",
    "--hidden",
    "--no-ignore-global",
    "--no-messages",
    "--no-ignore-messages",
    "--no-follow",
    # With memory maps a byte order mark is read in another way, and a shrinking file is a crash.
    "--no-mmap",
    "--color=never",
)
# Punctuation that ripgrep 13 does not let a backslash precede, and later ones do.
_NEEDLESS = frozenset(string.punctuation) - frozenset("\\.+*?()|[]{}^$#&-~<>")
_LONGEST_REASON = 1000
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Ripgrep:
    """ripgrep as a program that searches."""

    # 1 says that nothing matches, 2 that something could not be read or the pattern is bad.
    exit_codes = frozenset({0, 1, 2})

    def __init__(self, program: str) -> None:
        """Keep the path of the program."""
        self.name = program

    def count_argv(self, place: SearchPlace, query: Query) -> tuple[str, ...]:
        """Return the argument vector that counts matching lines per file."""
        flags = ["--count", "--null", "--with-filename", *_case_flags(query)]
        flags += _selection(place, query.include)
        return self._argv(flags, query.pattern, [_target(place)])

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
        flags = ["--json", *_case_flags(query)]
        flags += [f"--before-context={query.before}", f"--after-context={query.after}"]
        if paths is None:
            flags += _selection(place, query.include)
            return self._argv(flags, query.pattern, [_target(place)])
        # For so few files, threads cost more to start than they save.
        flags += ["--threads=1", f"--max-count={most}"]
        targets = ["-"] if place.is_file else [f"./{os.fsdecode(path)}" for path in paths]
        return self._argv(flags, query.pattern, targets)

    def files_argv(self, place: SearchPlace) -> tuple[str, ...]:
        """Return the argument vector that lists the files that a search would read."""
        selection = _selection(place, Include())
        return (self.name, *_PLAIN_FLAGS, "--files", "--null", *selection, "--", "./")

    def _argv(self, flags: Iterable[str], pattern: str, targets: Iterable[str]) -> tuple[str, ...]:
        pattern = without_needless_escapes(pattern)
        return (self.name, *_PLAIN_FLAGS, *flags, "-e", pattern, "--", *targets)

    def reason(self, complaint: bytes) -> str:
        """Return what is said of a pattern, without advice about flags that nobody can pass."""
        text = complaint.decode("utf-8", "replace").removeprefix("rg: ")
        text = text.partition("\n\nConsider ")[0].strip()
        # A long pattern is not printed again; the last line says what is wrong with it.
        return text if len(text) <= _LONGEST_REASON else text.rpartition("\n")[2][-_LONGEST_REASON:]


def _target(place: SearchPlace) -> str:
    return "-" if place.is_file else "./"


def _case_flags(query: Query) -> list[str]:
    return ["--ignore-case"] if query.ignore_case else []


def _selection(place: SearchPlace, include: Include) -> tuple[str, ...]:
    """Return the flags that say which files of a folder are searched."""
    if place.is_file:
        return ()
    globs = [f"!{name}" for name in SKIPPED_NAMES]
    globs += [f"!{name}/" for name in SKIPPED_FOLDERS]
    globs += [f"!/{_quote_glob(path)}" for path in place.excluded]
    # A type, not a glob: a glob would bring back what ignore files leave out.
    name = include.name_glob
    kind = (f"--type-add=wanted:{name}", "--type=wanted") if name else ()
    return (*(f"--glob={glob}" for glob in globs), *kind)


def _quote_glob(path: str) -> str:
    return re.sub(r"([*?\[\]{}\\,!])", r"\\\1", path)


def without_needless_escapes(pattern: str) -> str:
    r"""Return the pattern without backslashes that mean nothing, such as in ``\/`` or ``\"``.

    Later versions of ripgrep ignore them and version 13 refuses them.
    """
    return _ESCAPE.sub(lambda found: found[found[1] in _NEEDLESS], pattern)
