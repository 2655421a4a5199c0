"""The list of checks: each has a name, a theme, one sentence that it proves, and what it needs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import msgspec

from moorage.testing.conformance.place import Place

Body = Callable[[Place], Awaitable[None]]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check; it returns, or raises ``AssertionError`` with what was seen."""

    name: str
    theme: str
    proves: str
    needs: tuple[str, ...]
    run: Body


_CHECKS: dict[str, Check] = {}


def check(theme: str, *needs: str) -> Callable[[Body], Body]:
    """Put a function on the list; its docstring is the sentence, ``needs`` are abilities."""

    def enlist(body: Body) -> Body:
        name = getattr(body, "__name__", "")
        if name in _CHECKS:
            raise ValueError(f"there are two checks {name}")
        _CHECKS[name] = Check(
            name=name, theme=theme, proves=inspect.getdoc(body) or "", needs=needs, run=body
        )
        return body

    return enlist


def enlisted() -> tuple[Check, ...]:
    """Return every check of the modules that were imported, in their order."""
    return tuple(_CHECKS.values())
