"""What a user can see of the configured environments, and a check that one really works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec

from moorage.app.application import open_session
from moorage.app.config import Configuration, load
from moorage.app.home import Home
from moorage.backends.catalogue import load_backend
from moorage.backends.profile import Profile
from moorage.errors import ExecutionError

CHECK_SECONDS = 60


class EnvironmentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One environment, as a list shows it; ``problem`` is empty when it can be chosen."""

    name: str
    backend: str
    is_default: bool
    problem: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a check: what was tried, whether it worked, and what was seen."""

    name: str
    is_fine: bool
    detail: str


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


async def check_environment(
    home: Home, name: str, *, workspace: Path | None = None
) -> AsyncIterator[Finding]:
    """Open the environment and use it; yield a finding per step and stop at the first failure."""
    load(home).profile(name)
    try:
        async with open_session(name, workspace=workspace, home=home_override(home)) as session:
            with anyio.fail_after(CHECK_SECONDS):
                promised = await session.capabilities()
                detail = ", ".join(sorted(promised)) or "none"
                yield Finding(name="worker", is_fine=True, detail=f"capabilities: {detail}")
                listing = await session.list_files()
                count = (listing.structured_content or {}).get("total", 0)
                yield Finding(name="files", is_fine=True, detail=f"{count} entries in the root")
                ended = await session.run("exit 7", timeout_seconds=CHECK_SECONDS)
                told = f"outcome {ended.outcome}, exit code {ended.exit_code}"
                yield Finding(name="commands", is_fine=ended.exit_code == 7, detail=told)
    except (ExecutionError, TimeoutError) as error:
        yield Finding(name="failure", is_fine=False, detail=str(error) or "no answer in time")


def home_override(home: Home) -> Path | None:
    """Return the folder to open a session with, when everything lies in one."""
    return home.configuration if len(home.hidden_paths) == 1 else None
