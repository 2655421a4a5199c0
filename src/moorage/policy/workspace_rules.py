"""Rules about where a workspace may lie, as text decisions on absolute, resolved paths."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from moorage.errors import ConfigError


def check_apart(
    folders: Iterable[str], hidden_paths: Iterable[str], *, field: str = "workspace"
) -> None:
    """Return when no folder contains, or lies in, one of Moorage's own folders.

    A confined command could otherwise rewrite the configuration that confines it. ``field`` names
    the argument in the message.

    Raises:
        ConfigError: one does.
    """
    hidden = [PurePath(path) for path in hidden_paths]
    for folder in map(PurePath, folders):
        for own in hidden:
            if folder.is_relative_to(own) or own.is_relative_to(folder):
                raise ConfigError(
                    f"{str(folder)!r} and Moorage's own folder {str(own)!r} overlap.",
                    path=field,
                    hint="Choose another folder, or move Moorage's home with MOORAGE_HOME.",
                )
