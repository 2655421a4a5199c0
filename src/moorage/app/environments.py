"""What a user can see of the configured environments."""

from __future__ import annotations

from pathlib import Path

import msgspec

from moorage.app.config import Configuration
from moorage.app.home import Home
from moorage.backends.catalogue import load_backend
from moorage.backends.profile import Profile
from moorage.errors import ExecutionError


class EnvironmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One environment, as a list shows it; ``problem`` is empty when it can be chosen."""

    name: str
    backend: str
    is_default: bool
    problem: str = ""


def list_environments(configuration: Configuration) -> list[EnvironmentSummary]:
    """Return every environment a session can name, ``local`` first."""
    return [summary_of(configuration, name) for name in configuration.profile_names()]


def summary_of(configuration: Configuration, name: str) -> EnvironmentSummary:
    """Return what a list shows of one environment; a bad profile is told, not raised."""
    is_default = name == configuration.default_name()
    try:
        profile: Profile = configuration.profile(name)
        load_backend(profile.backend)
    except ExecutionError as error:
        raw = configuration.execution_environments.profiles.get(name, {})
        backend = str(raw.get("backend", "")) if isinstance(raw, dict) else ""
        return EnvironmentSummary(
            name=name, backend=backend, is_default=is_default, problem=str(error)
        )
    return EnvironmentSummary(name=name, backend=profile.backend, is_default=is_default)


def home_override(home: Home) -> Path | None:
    """Return the folder to open a session with, when everything lies in one."""
    return home.configuration if len(home.hidden_paths) == 1 else None
