"""Calls of git that write: files named one by one, and a commit with a message. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from moorage.errors import InvalidArguments
from moorage.workspace.git.call import GitCall, not_allowed

_TAKES_NEXT = ("-m", "--message")
_COMMIT_SWITCHES = frozenset({"--amend", "--no-edit", "-q", "--quiet", "-s", "--signoff"})


def plan_add(arguments: Sequence[str]) -> GitCall:
    """Return the call that stages the named files.

    Raises:
        Refused: it does more than stage files named by their paths.
        InvalidArguments: it names none.
    """
    paths = _explicit_paths("add", arguments, frozenset({"-v", "--verbose"}))
    return GitCall(subcommand="add", arguments=("--", *paths), effect="write", paths=paths)


def plan_restore(arguments: Sequence[str]) -> GitCall:
    """Return the call that takes the named files off the index again.

    Raises:
        Refused: it would change files too, or does not name them by their paths.
        InvalidArguments: it names none.
    """
    if not {"--staged", "-S"} & set(arguments):
        raise not_allowed(
            "git restore without --staged", "It would overwrite files; edit them with edit_file."
        )
    paths = _explicit_paths("restore", arguments, frozenset({"--staged", "-S"}))
    return GitCall(
        subcommand="restore", arguments=("--staged", "--", *paths), effect="write", paths=paths
    )


def _explicit_paths(
    subcommand: str, arguments: Sequence[str], allowed: frozenset[str]
) -> tuple[str, ...]:
    """Return the paths that a call names one by one."""
    paths: list[str] = []
    takes_options = True
    for argument in arguments:
        if takes_options and argument == "--":
            takes_options = False
        elif takes_options and argument.startswith("-"):
            if argument not in allowed:
                raise not_allowed(f"git {subcommand} {argument}", "Name each file by its path.")
        else:
            paths.append(argument)
    if not paths:
        raise InvalidArguments(f"git {subcommand} names no file.", hint="Name each by its path.")
    for path in paths:
        if not path or posixpath.normpath(path) in (".", "/") or path.startswith(":"):
            raise not_allowed(f"git {subcommand} {path!r}", "Name each file by its path.")
    return tuple(paths)


def plan_commit(arguments: Sequence[str]) -> GitCall:
    """Return the call that commits what is staged, with a message.

    Raises:
        Refused: it asks for more than a message and an amendment.
        InvalidArguments: it has no message.
    """
    messages: list[str] = []
    switches: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in _COMMIT_SWITCHES:
            switches.append(word)
        else:
            messages.append(_message(word, next(words, "") if word in _TAKES_NEXT else ""))
    is_amendment = "--amend" in switches
    keeps_message = is_amendment and "--no-edit" in switches
    if not any(message.strip() for message in messages) and not keeps_message:
        raise InvalidArguments("git commit needs a message.", hint='Pass "-m" and the message.')
    return GitCall(
        subcommand="commit",
        arguments=(*switches, *(f"--message={message}" for message in messages)),
        effect="write",
        is_amendment=is_amendment,
    )


def _message(word: str, following: str) -> str:
    if word in _TAKES_NEXT:
        return following
    if word.startswith("--message="):
        return word.removeprefix("--message=")
    if word.startswith("-m"):
        return word.removeprefix("-m")
    raise not_allowed(
        f"git commit {word}", "It takes -m MESSAGE and --amend; stage files with add."
    )
