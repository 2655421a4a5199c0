"""Moorage's home: where the user's configuration and Moorage's own state lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from moorage.confine.private_folders import keep_from_writing, make_private
from moorage.errors import ConfigError


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one installation.

    With ``MOORAGE_HOME`` everything lies in one folder; otherwise configuration and state follow
    the XDG base directories.
    """

    configuration: Path
    state: Path
    hidden_paths: tuple[Path, ...]

    def close_to_others(self) -> None:
        """Let no other user read the state, nor write the configuration.

        Raises:
            ConfigError: a folder is open to others and not ours to close, or cannot be made.
        """
        try:
            keep_from_writing(self.configuration)
            for folder in (self.state, self.sessions):
                make_private(folder)
        except OSError as error:
            raise ConfigError(
                f"Moorage's state cannot be kept in {self.state}: {error.strerror}.",
                hint="Make Moorage's home writable, or name another one with MOORAGE_HOME.",
            ) from error

    @property
    def sessions(self) -> Path:
        """Return the folder that holds one folder per session."""
        return self.state / "sessions"

    @property
    def environments(self) -> Path:
        """Return the folder that holds one folder per environment that is not local."""
        return self.state / "environments"

    @property
    def worker_state(self) -> Path:
        """Return the folder that local workers keep their logs and exports in."""
        return self.state / "worker"


def find_home(
    override: str | os.PathLike[str] | None = None, variables: Mapping[str, str] = os.environ
) -> Home:
    """Return the home that ``override``, ``MOORAGE_HOME`` or the XDG variables name.

    Raises:
        ConfigError: a folder is named that is not absolute.
    """
    named = os.fspath(override) if override is not None else variables.get("MOORAGE_HOME", "")
    if named:
        root = _absolute(named, "MOORAGE_HOME")
        return Home(configuration=root, state=root / "state", hidden_paths=(root,))
    user = Path(variables.get("HOME") or Path.home())
    configuration = _absolute(
        variables.get("XDG_CONFIG_HOME") or user / ".config", "XDG_CONFIG_HOME"
    )
    state = _absolute(
        variables.get("XDG_STATE_HOME") or user / ".local" / "state", "XDG_STATE_HOME"
    )
    folders = (configuration / "moorage", state / "moorage")
    return Home(configuration=folders[0], state=folders[1], hidden_paths=folders)


def _absolute(named: str | os.PathLike[str], variable: str) -> Path:
    path = Path(named)
    if not path.is_absolute():
        raise ConfigError(
            f"{variable} must name an absolute folder, not {str(path)!r}.",
            hint="Give the whole path, beginning with a slash.",
        )
    return Path(os.path.realpath(path))
