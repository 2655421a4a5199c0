"""Adds and removes profiles in the user's configuration file, and leaves all else in it alone."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from moorage.app.config import load
from moorage.app.home import Home
from moorage.backends.catalogue import load_backend
from moorage.backends.profile import Profile, check_name, parse_profile
from moorage.confine.private_folders import make_private, replace_private
from moorage.errors import ConfigError, NotFound

SECTION = "execution_environments"

Document = dict[str, Any]


def add_profile(
    home: Home,
    name: str,
    fields: Mapping[str, Any],
    *,
    is_default: bool = False,
    replaces: bool = False,
) -> Path:
    """Add a profile to the configuration file, and return the file.

    Raises:
        ConfigError: the name is taken or cannot be one, a field is impossible, or the file is not
            one that can be changed; nothing was written.
        BackendUnavailable: this version has no such backend.
    """
    path = f"{SECTION}.profiles.{name}"
    check_name(name, path)
    profile = parse_profile(dict(fields), path)
    load_backend(profile.backend)
    described = msgspec.to_builtins(profile)

    def change(document: Document) -> None:
        profiles = _part(_part(document, SECTION), "profiles")
        if name in profiles and not replaces:
            raise ConfigError(
                f"an environment called {name!r} is configured already.",
                path=path,
                hint="Take another name, or say --replace; sessions keep the one that they have.",
            )
        profiles[name] = described
        if is_default:
            document[SECTION]["default"] = name

    return _changed(home, change, _as_toml(name, profile, is_default=is_default))


def remove_profile(home: Home, name: str) -> Path:
    """Take a profile out of the configuration file, and return the file.

    Raises:
        NotFound: there is none of this name.
        ConfigError: it is the default one, or the file is not one that can be changed.
    """
    configuration = load(home)
    if name not in configuration.execution_environments.profiles:
        known = ", ".join(configuration.profile_names()[1:]) or "none"
        raise NotFound(f"no environment {name!r} is configured; there are: {known}.")
    if name == configuration.default_name():
        raise ConfigError(
            f"{name} is the default environment.",
            path=f"{SECTION}.default",
            hint="Make another one the default first (`moorage env add NAME --default`), or take "
            "`default` out of the file.",
        )

    def change(document: Document) -> None:
        del document[SECTION]["profiles"][name]

    return _changed(home, change, f"Take [{SECTION}.profiles.{_key(name)}] out of it.")


def _changed(home: Home, change: Callable[[Document], None], by_hand: str) -> Path:
    """Change the file as a whole or not at all; ``by_hand`` says what to do where it is TOML."""
    with _alone(home.configuration):
        load(home)
        toml = home.configuration / "config.toml"
        if toml.exists():
            raise ConfigError(
                f"{toml} is written by hand, with comments that a program would lose.",
                hint=by_hand,
            )
        # A link to a file that the user keeps elsewhere stays one.
        file = Path(os.path.realpath(home.configuration / "config.json"))
        document: Document = msgspec.json.decode(file.read_bytes()) if file.exists() else {}
        change(document)
        text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        try:
            replace_private(file, text)
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
    return file


def _part(document: Document, name: str) -> Document:
    part: Document = document.setdefault(name, {})
    return part


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the only program that changes the file, so that no two lose each other's change."""
    try:
        if not folder.is_dir():
            make_private(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _as_toml(name: str, profile: Profile, *, is_default: bool) -> str:
    """Return what a person is to add to a file in TOML."""
    lines = [f"[{SECTION}.profiles.{_key(name)}]"]
    for field, value in msgspec.to_builtins(profile).items():
        # What JSON writes of texts, numbers, truths and lists of texts is TOML as well.
        lines.append(f"{field} = {msgspec.json.encode(value).decode()}")
    first = [f'In [{SECTION}]: default = "{name}"'] if is_default else []
    return "\n".join(["Add to it:", *first, *lines])


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name
