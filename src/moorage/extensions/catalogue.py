"""The extensions by name; an extension's module is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from moorage.errors import ConfigError
from moorage.host.extending.enabling import Extension

GROUP = "moorage.extensions"
_OWN = {"monitor": "moorage.extensions.monitor:Monitor"}


def extension_names() -> tuple[str, ...]:
    """Return the names of the extensions that this installation has."""
    return tuple(dict.fromkeys([*_OWN, *(point.name for point in entry_points(group=GROUP))]))


def load_extension(name: str) -> Extension:
    """Return a new instance of the extension called ``name``.

    Raises:
        ConfigError: this installation does not have it.
    """
    make: Callable[[], Extension]
    if name in _OWN:
        module, _, attribute = _OWN[name].partition(":")
        make = getattr(import_module(module), attribute)
        return make()
    for point in entry_points(group=GROUP, name=name):
        make = point.load()
        return make()
    raise ConfigError(
        f"there is no extension {name!r}.",
        path="extensions",
        hint=f"This installation has {', '.join(extension_names())}.",
    )
