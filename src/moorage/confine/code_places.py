"""Where this program's own code is loaded from: nowhere that a command may write.

Whoever can rewrite Moorage, its libraries or its Python decides what runs unconfined next. Landlock
cannot take a folder out of a writable one, so such a workspace is refused in ``standard``. In
``read_only`` it is fine: nothing in it can be written.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine.own_interpreter import is_bundled
from moorage.confine.plan import SHARED_MEMORY, contains
from moorage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VARIABLES = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
"""Variables that name more places of code, for this program and for the worker that it starts."""

# A portable worker is given its library path as an argument, and its Python reads no variable.
_BUNDLED_VARIABLES = ("LD_PRELOAD", "LD_AUDIT")

MOST_SYMLINKS = 40
"""As many as the kernel follows on one path."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
_SITE_FOLDERS = ("site-packages", "dist-packages")


class CodePlace(NamedTuple):
    """A file or folder that code comes from; a writable root may not hold it.

    ``is_whole`` says that a root within it is as bad. ``variable`` is what names it, if one does.
    """

    path: str
    is_whole: bool = False
    variable: str = ""


def code_places(
    search_path: Iterable[str] | None = None, variables: Mapping[str, str] = os.environ
) -> tuple[CodePlace, ...]:
    """Return where the code of this process comes from.

    ``search_path`` is all of ``sys.path`` for a program that is Moorage's own. By default it is
    what the installation put there: the folder of an embedding program is that program's business.
    """
    entries = installed_path(sys.path) if search_path is None else search_path
    own = (sys.prefix, sys.base_prefix, sys.executable, sys.pycache_prefix)
    return (
        CodePlace(_PACKAGE, is_whole=True),
        CodePlace(_LIBRARY, is_whole=True),
        *(CodePlace(path, is_whole=path.endswith(_SITE_FOLDERS)) for path in entries),
        *(CodePlace(path, is_whole=is_bundled()) for path in own if path),
        *_named(variables),
    )


def installed_path(search_path: Iterable[str]) -> tuple[str, ...]:
    """Return what comes after the standard library: installed packages and what they add.

    Before it stand the folder of the program that runs, and what variables name.
    """
    entries = tuple(search_path)
    return entries[entries.index(_LIBRARY) :] if _LIBRARY in entries else entries


def linked_packages(names: Iterable[str] = ("moorage", "anyio", "msgspec")) -> tuple[str, ...]:
    """Return which of Moorage's loaded packages are hard links: the same files lie elsewhere, too.

    An installer's cache may share them with an environment that a command may write.
    """
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in names}
    return tuple(name for name, file in files.items() if file and os.stat(file).st_nlink > 1)


def _named(variables: Mapping[str, str]) -> Iterator[CodePlace]:
    for name in _BUNDLED_VARIABLES if is_bundled() else VARIABLES:
        # Both loaders take an empty entry for the current folder.
        entries = variables[name].split(":") if variables.get(name) else ()
        yield from (CodePlace(entry, variable=name) for entry in entries)


def check_code_apart(
    roots: Iterable[str], places: Iterable[CodePlace], *, field: str = "workspace"
) -> None:
    """Return when commands that may write the ``roots`` can reach no place of code.

    The roots are resolved. ``field`` names the argument in the message.

    Raises:
        ConfigError: they can.
    """
    found = [(place, way) for place in places for way in ways(place.path)]
    for root in (*roots, SHARED_MEMORY):
        for place, way in found:
            if contains(root, way) or (place.is_whole and contains(way, root)):
                raise _refusal(root, place, way, field)


def _refusal(root: str, place: CodePlace, way: str, field: str) -> ConfigError:
    if place.variable:
        return ConfigError(
            f"{place.variable} names {way!r}, and in {root!r} commands may write: code of theirs "
            "would be loaded into Moorage, which nothing confines.",
            path=field,
            hint=f"Unset {place.variable} for Moorage, or choose the mode read_only.",
        )
    return ConfigError(
        f"Moorage's own code is loaded from {way!r}, and in {root!r} commands may write: they "
        "could rewrite what confines them.",
        path=field,
        hint="Install Moorage outside (`uv tool install --link-mode copy moorage` or `pipx install "
        "moorage`), choose another workspace, or choose the mode read_only or unconfined.",
    )


def ways(path: str) -> Iterator[str]:
    """Yield every symlink that a path leads through, and where it ends.

    Whoever can replace one of them leads the path elsewhere.
    """
    try:
        rest = os.path.join(os.getcwd(), path).split("/")[::-1]
    except FileNotFoundError:  # the current folder is gone, and a relative path leads nowhere
        rest = path.split("/")[::-1] if path.startswith("/") else []
    at, followed = "/", 0
    while rest and followed <= MOST_SYMLINKS:
        name = rest.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, name) if name not in {"", "."} else at
        try:
            target = os.readlink(here)
        except OSError:
            at = here
            continue
        yield here
        followed += 1
        rest += target.split("/")[::-1]
        at = "/" if target.startswith("/") else at
    yield at
