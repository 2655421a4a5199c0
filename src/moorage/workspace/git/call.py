"""One call of git: what is asked for, and the argument vector that runs it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from moorage.errors import Refused

# Nothing here may wait for a person, page its output, or touch the index while it only reads.
VARIABLES: Mapping[str, str] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_NO_LAZY_FETCH": "1",
    "NO_COLOR": "1",
}
_GLOBAL_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    # A program that a repository's configuration names is not started by a look at it.
    "-c",
    "core.fsmonitor=false",
    "-c",
    "color.ui=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
)
# A path that a write names is a path, whatever characters it has.
_LITERAL = "--literal-pathspecs"
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_FIXED_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "status": ("--porcelain=v2", "--branch", "-z"),
    "diff": _NO_PROGRAMS,
    "log": _NO_PROGRAMS,
    "show": _NO_PROGRAMS,
    "branch": ("--no-column",),
    "tag": ("--no-column",),
}

TRAILER = "Co-authored-by: Moorage <agent@moorage.invalid>"


class GitCall(msgspec.Struct, frozen=True, kw_only=True):
    """One allowed call: what follows ``git`` and its global options.

    ``paths`` are those that a write names; ``is_amendment`` is a commit that replaces another.
    """

    subcommand: str
    arguments: tuple[str, ...]
    effect: Literal["read", "write"] = "read"
    paths: tuple[str, ...] = ()
    is_amendment: bool = False

    def argv(self, program: str = "git", *, trailer: str = "") -> tuple[str, ...]:
        """Return the whole argument vector.

        ``trailer`` becomes the last paragraph of a new commit's message.
        """
        options = (*_GLOBAL_OPTIONS, *((_LITERAL,) if self.effect == "write" else ()))
        fixed = _FIXED_OPTIONS.get(self.subcommand, ())
        is_new_commit = self.subcommand == "commit" and not self.is_amendment
        last = (f"--message={trailer}",) if trailer and is_new_commit else ()
        return (program, *options, self.subcommand, *fixed, *self.arguments, *last)


def candidates_argv(paths: Iterable[str], program: str = "git") -> tuple[str, ...]:
    """Return the argument vector that names the files that ``add`` would stage.

    They come relative to the current folder, with a NUL after each.
    """
    listing = ("--others", "--modified", "--deleted", "--exclude-standard", "-z")
    return (program, *_GLOBAL_OPTIONS, _LITERAL, "ls-files", *listing, "--", *paths)


def not_allowed(what: str, hint: str) -> Refused:
    """Return the refusal of a call."""
    return Refused(f"{what} is not allowed in the git tool.", reason="git_not_allowed", hint=hint)
