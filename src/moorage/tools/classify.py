"""Say what a command may do, from its text alone; for permission checks and scheduling. Pure.

This is no confinement: the kernel enforces what a command may touch. A command counts as reading
only when every part of it is known to.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from moorage.tools.checks import recognise
from moorage.tools.git_words import is_git_destructive, judge_git
from moorage.tools.shell_words import ShellLine, is_assignment, split
from moorage.workspace.memory import LONGEST_COMMAND, remembered
from moorage.workspace.protected import is_protected_name

Risk = Literal["low", "medium", "high"]


class Classification(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may do, and why that is thought."""

    risk: Risk
    reason: str
    read_only: bool = False
    concurrency_safe: bool = False
    destructive: bool = False


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SEGMENTS = r"[;&|\n()`]+"
_WORDS = r"'[^']*+'|\"[^\"]*+\"|[^\s'\"]++"
_OPTION_STARTS = frozenset("-0123456789")
_QUOTES = str.maketrans("", "", "'\"")
_WRAPPERS = _names("builtin command env exec ionice nice nohup stdbuf time timeout xargs")

# Programs that only read, and the beginnings of their options that do more than that.
_READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        _names(
            "basename cat cmp cut diff dirname du echo false grep head id ls md5sum nl nproc pwd"
            " readlink realpath sha1sum sha256sum sha512sum stat tail test true uname wc which"
            " whoami"
        ),
        (),
    ),
    "file": ("-C", "--c"),
    "rg": ("--pre", "--hostname-bin"),
}
_TAKES_PATTERN = frozenset({"grep", "rg"})
_TAKES_NO_PATH = frozenset({"echo", "test", "which"})
_DUMPS_VARIABLES = _names("env printenv set export declare compgen")
_REACHES_OUT = _names("curl wget ssh scp sftp rsync gh nc ncat telnet ftp")
_INSTALLS = _names(
    "apt apt-get brew bun bundle cargo composer conda dnf gem go npm npx pip pip3 pipx pnpm"
    " poetry uv uvx yarn yum"
)
_DESTROYS = _names(
    "chmod chown dd docker kubectl mkfs mv podman rm rmdir shred sudo doas terraform truncate"
    " unlink"
)


@remembered(count=256, longest=LONGEST_COMMAND)
def classify(command: str) -> Classification:
    """Return what a command may do."""
    if recognise(command) is not None:
        return Classification(risk="medium", reason="it runs the project's own checks")
    line = split(command)
    destroyer = _destroyer(_segments(command, line))
    if destroyer:
        return Classification(risk="high", reason=f"{destroyer} may destroy", destructive=True)
    if line is None or not line.is_plain:
        return Classification(risk="high", reason="the command has shell metacharacters")
    words = [word.text for word in line.commands[0]]
    if not words or is_assignment(words[0]):
        return Classification(risk="high", reason="it is no plain command")
    return _judge(words[0], words[1:])


def _judge(name: str, arguments: list[str]) -> Classification:
    if name == "git":
        verdict = judge_git(arguments)
        safe = verdict.read_only and not any(map(is_protected_name, arguments))
        return Classification(
            risk=verdict.risk if safe or not verdict.read_only else "high",
            reason=verdict.reason,
            read_only=safe,
            concurrency_safe=safe,
        )
    if name not in _READERS:
        return Classification(risk="high", reason=_what_it_does(name))
    if any(argument.startswith(_READERS[name]) for argument in arguments if _READERS[name]):
        return Classification(risk="high", reason=f"{name} has an option that does more than read")
    if any(argument.startswith(("//", "\\\\")) for argument in arguments):
        return Classification(risk="high", reason="names a network path")
    if any(map(is_protected_name, _paths(name, arguments))):
        return Classification(risk="high", reason="names a protected path")
    return Classification(
        risk="low", reason=f"{name} only reads", read_only=True, concurrency_safe=True
    )


def _paths(name: str, arguments: list[str]) -> list[str]:
    """Return the arguments that may be paths; a pattern to search for is none."""
    if name in _TAKES_NO_PATH:
        return []
    named = [argument for argument in arguments if not argument.startswith("-")]
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("--")]
    has_pattern = name in _TAKES_PATTERN and "-f" not in arguments
    return values + (named[1:] if has_pattern else named)


def _what_it_does(name: str) -> str:
    for names, what in (
        (_DUMPS_VARIABLES, "prints the variables"),
        (_REACHES_OUT, "reaches out to the network"),
        (_INSTALLS, "may install or publish"),
    ):
        if name in names:
            return f"{name} {what}"
    return f"{name} is not known to only read"


def _segments(command: str, line: ShellLine | None) -> list[list[str]]:
    """Return the words of each simple command; a guess where the line cannot be split for sure."""
    if line is not None:
        return [[word.text for word in words] for words in line.commands]
    return [_words(segment) for segment in re.split(_SEGMENTS, command)]


def _destroyer(segments: list[list[str]]) -> str:
    """Return the first program in the line that may destroy something, or nothing."""
    for words in segments:
        while words and (
            words[0] in _WRAPPERS or is_assignment(words[0]) or words[0][:1] in _OPTION_STARTS
        ):
            del words[0]
        if not words:
            continue
        name = words[0].rpartition("/")[2]
        if name in _DESTROYS or name.startswith("mkfs."):
            return name
        if name == "git" and is_git_destructive(words[1:]):
            return "git"
        if name == "find" and "-delete" in words:
            return "find"
    return ""


def _words(segment: str) -> list[str]:
    """Return the words of a segment without their quotes."""
    words = (word.translate(_QUOTES) for word in re.findall(_WORDS, segment))
    return [word for word in words if word]
