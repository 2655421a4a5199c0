"""Calls of git that only read: no option may write a file, start a program or leave. Pure.

The kernel would stop most of it as well; a refusal says sooner and more clearly what is wrong.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from moorage.workspace.git.call import GitCall, not_allowed


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


READ_COMMANDS = _names(
    "blame branch cat-file describe diff log ls-files ls-tree remote rev-parse shortlog show stash"
    " status tag"
)

# Options that start programs, write files, read from outside or wait for somebody. Git takes any
# beginning of a long option that is not ambiguous, so a beginning is blocked as well.
_BLOCKED = (
    "--allow-empty",
    "--allow-empty-message",
    "--contents",
    "--edit",
    "--edit-description",
    "--exclude-from",
    "--exec",
    "--exec-path",
    "--ext-diff",
    "--filters",
    "--force",
    "--git-dir",
    "--interactive",
    "--no-index",
    "--no-verify",
    "--open-files-in-pager",
    "--output",
    "--output-directory",
    "--paginate",
    "--pathspec-from-file",
    "--receive-pack",
    "--textconv",
    "--upload-pack",
    "--work-tree",
)
# Whole options that a blocked one begins with, or that only print.
_HARMLESS = _names("--all --exclude --text")
_HARMLESS_WITH = frozenset({("rev-parse", "--git-dir")})

# What makes these commands list; anything else they do changes the repository.
_LISTING_OPTIONS: Mapping[str, frozenset[str]] = {
    "branch": _names(
        "-a -r -v -l -q -i --all --remotes --verbose --list --show-current --contains"
        " --no-contains --merged --no-merged --points-at --sort --format --ignore-case --abbrev"
        " --no-abbrev --quiet"
    ),
    "tag": _names(
        "-l -n -i --list --contains --no-contains --merged --no-merged --points-at --sort"
        " --format --ignore-case"
    ),
    "remote": _names("-v --verbose"),
}
_LISTING_SWITCHES = _names("-l --list")
# Options whose value is the next argument and is no path.
_VALUED = _names(
    "--contains --no-contains --merged --no-merged --points-at --sort --format --grep --author"
    " --committer --since --after --until --before --date --pretty --max-count --skip"
    " --diff-filter -S -G -L -n"
)
_FIRST_WORDS: Mapping[str, frozenset[str]] = {
    "stash": _names("list show"),
    "remote": _names("get-url"),
}


def plan_reading(subcommand: str, arguments: Sequence[str]) -> GitCall:
    """Return the call of one of ``READ_COMMANDS``.

    Raises:
        Refused: an option or a form of it does more than read.
    """
    arguments = _with_joined_sort(arguments)
    _check_options(subcommand, arguments)
    words = [argument for argument in arguments if not argument.startswith("-")]
    first = _FIRST_WORDS.get(subcommand)
    if first is not None and (subcommand == "stash" or words):
        if not words or words[0] not in first or arguments[0] != words[0]:
            whole = " ".join(("git", subcommand, *arguments))
            raise not_allowed(whole, _reading(subcommand))
    elif subcommand in _LISTING_OPTIONS:
        _check_listing(subcommand, arguments)
    if subcommand == "shortlog" and not words:
        arguments = [*arguments, "HEAD"]  # without a revision it would read its input
    if subcommand == "status":
        arguments = [argument for argument in arguments if not _shapes_status(argument)]
    return GitCall(subcommand=subcommand, arguments=tuple(arguments))


def outside_paths(call: GitCall, folders: Sequence[str], cwd: str) -> list[str]:
    """Return the arguments of a reading call that name something outside ``folders``.

    Git itself reads two files that lie outside its repository when ``diff`` names them.
    """
    found: list[str] = []
    is_value = False
    for argument in call.arguments:
        if not is_value and _leaves(argument, folders, cwd):
            found.append(argument)
        is_value = argument in _VALUED
    return found


def _leaves(argument: str, folders: Sequence[str], cwd: str) -> bool:
    if argument.startswith("-"):
        return False
    if not argument.startswith("/") and ".." not in argument.split("/"):
        return False
    path = posixpath.normpath(posixpath.join(cwd, argument))
    return not any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _with_joined_sort(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``--sort -key`` as one: the key is no option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--sort":
            joined[-1] = f"--sort={argument}"
        else:
            joined.append(argument)
    return joined


def _check_options(subcommand: str, arguments: Sequence[str]) -> None:
    for argument in arguments:
        if argument == "--":
            return
        if argument.startswith("-"):
            _check_option(subcommand, argument)


def _check_listing(subcommand: str, arguments: Sequence[str]) -> None:
    """Return when ``branch``, ``tag`` or ``remote`` only list.

    A name on its own would create something, unless the call says that it lists.
    """
    allowed = _LISTING_OPTIONS[subcommand]
    lists = any(argument in _LISTING_SWITCHES for argument in arguments)
    is_value = False
    for argument in arguments:
        name = argument.partition("=")[0]
        if argument.startswith("-"):
            if name not in allowed and not _is_cluster(name, allowed):
                raise not_allowed(f"git {subcommand} {argument}", _reading(subcommand))
        elif not (lists or is_value):
            raise not_allowed(f"git {subcommand} {argument}", _reading(subcommand))
        is_value = argument in _VALUED


def _is_cluster(option: str, allowed: frozenset[str]) -> bool:
    """Return whether an option is several short ones in one, or one with its number."""
    letters = option[1:].rstrip("0123456789")
    return letters.isalpha() and all(f"-{letter}" in allowed for letter in letters)


def _check_option(subcommand: str, option: str) -> None:
    name = option.partition("=")[0]
    if name in _HARMLESS or (subcommand, option) in _HARMLESS_WITH:
        return
    is_abbreviation = len(name) > 2 and any(blocked.startswith(name) for blocked in _BLOCKED)
    # After the subcommand -c means other things, most of them harmless; the long forms serve.
    if is_abbreviation or name.startswith("-c"):
        raise not_allowed(f"git {subcommand} {option}", "Leave the option out.")


def _shapes_status(argument: str) -> bool:
    """Return whether an argument only says how a status is printed; that is fixed here."""
    name = argument.partition("=")[0]
    return name in {"-s", "--short", "--porcelain", "-b", "--branch", "--long", "-z", "-v"}


def _reading(subcommand: str) -> str:
    return f"Only reading forms of git {subcommand} are allowed here."
