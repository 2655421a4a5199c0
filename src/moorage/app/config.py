"""The user's configuration file, decoded once into frozen structs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from moorage.app.home import Home
from moorage.backends.profile import LOCAL, Profile, check_name, parse_profile
from moorage.confine.provider import ConfinementProvider, check_provider
from moorage.errors import ConfigError, NotFound


class ConfinementChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A confinement provider that the user configured in place of the kernel's own.

    The fields are those of :class:`~moorage.confine.provider.ConfinementProvider`.
    """

    argv: tuple[str, ...]
    enforcement: str
    hidden: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    end: tuple[str, ...] = ()

    def provider(self) -> ConfinementProvider:
        """Return the provider.

        Raises:
            ConfigError: it cannot stand in for the kernel.
        """
        return check_provider(
            ConfinementProvider(**msgspec.structs.asdict(self)), path="confinement"
        )


class ExecutionEnvironments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where tools may run: the named profiles and the one used when nothing is named."""

    default: str = "local"
    profiles: dict[str, Any] = {}


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration; profiles stay undecoded until they are used.

    So a bad profile breaks its own use and nothing else.
    """

    execution_environments: ExecutionEnvironments = ExecutionEnvironments()
    writable_roots: tuple[str, ...] = ()
    confinement: ConfinementChoice | None = None
    extensions: tuple[str, ...] = ()
    """Names of the extensions that every session has, unless it chooses its own."""

    hand_over: bool = True
    """Whether slow commands of a model go on in the background."""

    def profile_names(self) -> tuple[str, ...]:
        """Return the names that a session can choose, ``local`` first."""
        return ("local", *self.execution_environments.profiles)

    def default_name(self) -> str:
        """Return the environment used when none is named."""
        return self.execution_environments.default or "local"

    def profile(self, name: str) -> Profile:
        """Return the profile called ``name``.

        Raises:
            NotFound: there is none. It never falls back to ``local``.
            ConfigError: it is invalid.
        """
        if name == "local":
            return LOCAL
        path = f"execution_environments.profiles.{name}"
        profiles = self.execution_environments.profiles
        if name not in profiles:
            known = ", ".join(self.profile_names())
            raise NotFound(
                f"unknown environment {name!r}; configured are {known}.",
                hint="Add a profile to the configuration file, or name one of these.",
            )
        check_name(name, path)
        return parse_profile(profiles[name], path)


def load(home: Home) -> Configuration:
    """Return the configuration that stands in ``home``; an absent file is an empty one.

    Raises:
        ConfigError: the file cannot be read, is malformed, has an unknown or wrong field, or stands
            there both as JSON and as TOML.
    """
    files = [home.configuration / name for name in ("config.json", "config.toml")]
    present = [file for file in files if file.exists()]
    if not present:
        return Configuration()
    if len(present) > 1:
        raise ConfigError(
            f"both config.json and config.toml stand in {home.configuration}.",
            hint="Keep one of them.",
        )
    configuration = _decode(present[0])
    _check(configuration, present[0])
    return configuration


def _decode(file: Path) -> Configuration:
    try:
        raw = file.read_bytes()
        value = tomllib.loads(raw.decode()) if file.suffix == ".toml" else msgspec.json.decode(raw)
        return msgspec.convert(value, Configuration)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
    except msgspec.ValidationError as error:
        sentence, _, place = str(error).partition(" - at `$")
        raise ConfigError(
            f"{file.name}: {sentence}.".replace("Object ", ""), path=place.strip(".`")
        ) from error
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is malformed: {error}.") from error


def _check(configuration: Configuration, file: Path) -> None:
    environments = configuration.execution_environments
    for name in environments.profiles:
        check_name(name, f"execution_environments.profiles.{name}")
    default = configuration.default_name()
    if default not in configuration.profile_names():
        raise ConfigError(
            f"{file.name} names the default environment {default!r}, which has no profile.",
            path="execution_environments.default",
        )
    for root in configuration.writable_roots:
        if not Path(root).is_absolute():
            raise ConfigError(f"{root!r} is not an absolute path.", path="writable_roots")
    if configuration.confinement is not None:
        configuration.confinement.provider()
