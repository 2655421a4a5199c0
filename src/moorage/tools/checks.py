"""Recognise the commands that check a project: tests, builds, linters, type checkers. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from moorage.tools.shell_words import ShellWord, is_assignment, split
from moorage.workspace.memory import LONGEST_COMMAND, remembered

CheckKind = Literal["test", "build", "lint", "typecheck"]


class PackageRunner(msgspec.Struct, frozen=True):
    """A tool of a JavaScript project that was called through ``npx``, which might download it."""

    tool: str
    start: int
    end: int
    """Where ``npx`` and its options and the tool's name stand in the command."""


class Check(msgspec.Struct, frozen=True):
    """A recognised check: what it checks, the folder it changes to first, and its runner."""

    kind: CheckKind
    folder: str = ""
    runner: PackageRunner | None = None


# What may stand in front of a command, and which of its options take a value of their own.
_WRAPPERS = {
    "command": frozenset[str](),
    "exec": frozenset[str](),
    "env": frozenset({"-u", "--unset"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "nohup": frozenset[str](),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "time": frozenset[str](),
    "timeout": frozenset({"-k", "--kill-after", "-s", "--signal"}),
}
_UNSAFE_ENV_OPTIONS = frozenset({"-S", "--split-string", "-C", "--chdir"})
_NPX_OPTIONS = frozenset({"-y", "--yes", "--no", "--no-install"})

_GO: dict[str, CheckKind] = {"test": "test", "vet": "lint", "build": "build", "list": "build"}
_CARGO: dict[str, CheckKind] = {
    "test": "test",
    "check": "typecheck",
    "build": "build",
    "clippy": "lint",
}
_PYTHON_TOOLS: dict[str, CheckKind] = {"pytest": "test", "ruff": "lint", "mypy": "typecheck"}
_PYTHON_MODULES: dict[str, CheckKind] = {"pytest": "test", "mypy": "typecheck"}
_SCRIPTS: dict[str, CheckKind] = {
    "test": "test",
    "lint": "lint",
    "build": "build",
    "check": "lint",
    "typecheck": "typecheck",
}
_JS_RUNNERS: dict[str, CheckKind] = dict.fromkeys(("vitest", "jest", "mocha", "ava", "tap"), "test")
_MAKE_TARGETS: dict[str, CheckKind] = {
    "test": "test",
    "tests": "test",
    "check": "test",
    "verify": "test",
    "ci": "test",
    "lint": "lint",
    "typecheck": "typecheck",
    "build": "build",
}
_NOT_A_TYPE_CHECK = frozenset({"--init", "--build", "-b", "--watch", "-w", "--generateTrace"})


@remembered(count=256, longest=LONGEST_COMMAND)
def recognise(command: str) -> Check | None:
    """Return what the command checks, or ``None`` when it is no plain check."""
    line = split(command)
    if line is None:
        return None
    folder = ""
    commands, operators = list(line.commands), list(line.operators)
    if operators[:1] == ["&&"]:
        changed = _changed_folder(commands[0])
        if changed is None:
            return None
        folder = changed
        del commands[0], operators[0]
    if operators or not commands[0]:
        return None
    words = _unwrapped(list(commands[0]))
    if not words:
        return None
    runner = _package_runner(words)
    texts = [word.text for word in words]
    if runner is not None:
        texts = texts[texts.index(runner.tool) :]
    kind = _kind(texts)
    if kind is None or (runner is not None and runner.tool not in {*_JS_RUNNERS, "tsc"}):
        return None
    return Check(kind, folder, runner)


def _changed_folder(words: tuple[ShellWord, ...]) -> str | None:
    """Return the folder of ``cd folder`` when it lies below, as the words alone tell."""
    if len(words) != 2 or words[0].text != "cd":
        return None
    folder = words[1].text
    is_safe = not folder.startswith(("/", "-", "~")) and "$" not in folder
    return folder if is_safe and ".." not in folder.split("/") else None


def _unwrapped(words: list[ShellWord]) -> list[ShellWord]:
    """Drop assignments and wrappers such as ``env`` and ``timeout 60`` from the front."""
    while words:
        name = words[0].text
        if is_assignment(name):
            del words[0]
        elif name in _WRAPPERS:
            del words[0]
            _drop_options(name, words)
        else:
            break
    return words


def _drop_options(wrapper: str, words: list[ShellWord]) -> None:
    with_value = _WRAPPERS[wrapper]
    while words and words[0].text.startswith("-"):
        option = words.pop(0).text
        if wrapper == "env" and option in _UNSAFE_ENV_OPTIONS:
            words.clear()
        elif option in with_value and words:
            del words[0]
    if wrapper == "timeout" and words and words[0].text[:1].isdigit():
        del words[0]


def _package_runner(words: list[ShellWord]) -> PackageRunner | None:
    if words[0].text != "npx":
        return None
    at = 1
    while at < len(words) and words[at].text in _NPX_OPTIONS:
        at += 1
    if at == len(words) or words[at].text.startswith("-"):
        return None
    return PackageRunner(words[at].text, words[0].start, words[at].end)


def _kind(words: list[str]) -> CheckKind | None:
    name, rest = words[0], words[1:]
    if name == "uv" and rest[:1] == ["run"] and len(rest) > 1:
        return _python(rest[1], rest[2:])
    family = _FAMILIES.get(name)
    return family(rest) if family is not None else _python(name, rest)


def _python(name: str, rest: list[str]) -> CheckKind | None:
    if name in {"python", "python3"} and len(rest) > 1 and rest[0] == "-m":
        return _PYTHON_MODULES.get(rest[1])
    return _PYTHON_TOOLS.get(name)


def _typescript(rest: list[str]) -> CheckKind | None:
    is_check = "--noEmit" in rest and not _NOT_A_TYPE_CHECK.intersection(rest)
    return "typecheck" if is_check else None


def _package_script(rest: list[str]) -> CheckKind | None:
    script = rest[1:] if rest[:1] == ["run"] else rest
    return _SCRIPTS.get(script[0]) if script else None


def _make(rest: list[str]) -> CheckKind | None:
    targets = [word for word in rest if not word.startswith("-") and "=" not in word]
    kinds = [_MAKE_TARGETS.get(target) for target in targets]
    return kinds[0] if kinds and None not in kinds else None


def _by_first(kinds: dict[str, CheckKind]) -> Callable[[list[str]], CheckKind | None]:
    return lambda rest: kinds.get(rest[0]) if rest else None


def _always(kind: CheckKind) -> Callable[[list[str]], CheckKind | None]:
    return lambda _: kind


_FAMILIES: dict[str, Callable[[list[str]], CheckKind | None]] = {
    "go": _by_first(_GO),
    "cargo": _by_first(_CARGO),
    "tsc": _typescript,
    "make": _make,
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _package_script),
    **{name: _always(kind) for name, kind in _JS_RUNNERS.items()},
}
