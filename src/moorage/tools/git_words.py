"""Say what a git command may do, from its words alone. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec


class GitVerdict(msgspec.Struct, frozen=True):
    """What a git command may do, and why that is thought."""

    risk: Literal["low", "medium", "high"]
    reason: str
    read_only: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READS = _names(
    "annotate blame cat-file check-attr check-ignore cherry count-objects describe diff"
    " diff-files diff-index diff-tree for-each-ref grep log ls-files ls-tree merge-base"
    " name-rev rev-list rev-parse shortlog show show-branch show-ref status version"
    " whatchanged"
)
# What the reading form of a command that can also write looks like: its first words.
_LISTS: dict[str, frozenset[str]] = {
    "branch": frozenset({"", "-a", "-r", "-v", "-vv", "--all", "--list", "--show-current"}),
    "config": frozenset({"--get", "--get-all", "--list", "-l", "get", "list"}),
    "reflog": frozenset({"", "show"}),
    "remote": frozenset({"", "-v", "--verbose", "get-url"}),
    "stash": frozenset({"list", "show"}),
    "tag": frozenset({"", "-l", "--list", "-n"}),
    "worktree": frozenset({"list"}),
}
_TAKES_MORE_WORDS = frozenset(
    {"--list", "--get", "--get-all", "get", "show", "get-url", "-l", "list"}
)
_STAGES = frozenset({"add", "commit"})
_DESTROYS = _names(
    "checkout clean filter-branch filter-repo gc merge prune rebase reset rm switch update-ref"
)
_DESTROYING_WORDS: dict[str, frozenset[str]] = {
    "branch": frozenset({"-d", "-D", "--delete", "-M"}),
    "push": frozenset({"-f", "--force", "--delete", "-d", "--mirror", "--force-with-lease"}),
    "reflog": frozenset({"expire", "delete"}),
    "stash": frozenset({"drop", "clear", "pop"}),
    "tag": frozenset({"-d", "--delete"}),
    "worktree": frozenset({"remove", "prune"}),
}
# Options that write a file or start a program; git takes any unambiguous beginning of them.
_DOES_MORE = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--exec-path",
    "--upload-pack",
)
_SHORTEST_ABBREVIATION = 4


def judge_git(words: list[str]) -> GitVerdict:
    """Return what ``git`` with these words may do."""
    rest = _without_global_options(words)
    if not rest:
        return GitVerdict("high", "git has options that may start programs")
    name, arguments = rest[0], rest[1:]
    if name in _READS or _lists(name, arguments):
        if any(map(_does_more, arguments)) or (name == "grep" and _opens_pager(arguments)):
            return GitVerdict("high", f"git {name} has an option that does more than read")
        return GitVerdict("low", f"git {name} only reads", read_only=True)
    if name == "ls-remote":
        return GitVerdict("medium", "git ls-remote asks a server", read_only=True)
    if name in _STAGES or (name == "restore" and "--staged" in arguments):
        return GitVerdict("medium", f"git {name} changes the index or adds a commit")
    return GitVerdict("high", f"git {name} is not known to only read")


def is_git_destructive(words: list[str]) -> bool:
    """Return whether ``git`` with these words may lose work."""
    rest = _without_global_options(words, strict=False)
    if not rest:
        return False
    name, arguments = rest[0], rest[1:]
    if name == "restore":
        return "--staged" not in arguments or "--worktree" in arguments
    return name in _DESTROYS or bool(_DESTROYING_WORDS.get(name, frozenset()) & set(arguments))


def _without_global_options(words: list[str], *, strict: bool = True) -> list[str]:
    """Drop harmless options before the command; others, when strict, leave nothing."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-C" and rest:
            del rest[0]
        elif option not in {"--no-pager", "--no-optional-locks", "--version"}:
            if strict:
                return []
            if option == "-c" and rest:
                del rest[0]
    return rest


def _lists(name: str, arguments: list[str]) -> bool:
    forms = _LISTS.get(name)
    if forms is None:
        return False
    first = arguments[0] if arguments else ""
    if first not in forms:
        return False
    return first in _TAKES_MORE_WORDS or all(word in forms for word in arguments)


def _does_more(argument: str) -> bool:
    option = argument.partition("=")[0]
    return len(option) >= _SHORTEST_ABBREVIATION and any(
        known.startswith(option) for known in _DOES_MORE
    )


def _opens_pager(arguments: list[str]) -> bool:
    return any(argument.startswith("-O") for argument in arguments)
