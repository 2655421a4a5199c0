"""Types of options and arguments, with sentences for values that do not fit."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class Folder(click.ParamType[str]):
    """A folder that the host checks; here it only completes names."""

    name = "folder"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Let the shell complete folders."""
        return [CompletionItem(incomplete, type="dir")]


class WholeNumber(click.ParamType[int]):
    """A whole number within bounds."""

    name = "number"

    def __init__(self, least: int, most: int | None = None) -> None:
        """Keep the bounds, both included."""
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            bounds = (
                f"of {self._least} or more"
                if self._most is None
                else f"from {self._least} to {self._most}"
            )
            self.fail(f"{value!r} is not a whole number {bounds}.", param, ctx)
        return number


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, where port 0 lets the system choose."""

    name = "address"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Return the host and the port."""
        host, separator, port = str(value).rpartition(":")
        if not (separator and host and port.isdecimal() and int(port) <= 65535):
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8765.", param, ctx)
        return host.strip("[]"), int(port)


class Key(NamedTuple):
    """A key as people call it, and the byte that a terminal sends for it."""

    name: str
    byte: bytes


class ControlKey(click.ParamType[Key]):
    """A key that is pressed together with ctrl."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Key:
        """Return the key."""
        if isinstance(value, Key):
            return value
        found = re.fullmatch(r"(?:ctrl-|\^)([a-z@\[\\\]^_])", str(value).lower())
        if found is None:
            self.fail(f"{value!r} is not a key such as ctrl-] or ctrl-q.", param, ctx)
        letter = found[1]
        return Key(f"ctrl-{letter}", bytes([ord(letter.upper()) & 0x1F]))
