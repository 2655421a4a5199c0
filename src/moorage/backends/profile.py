"""A profile: the user's description of one environment, validated field by field (pure)."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import msgspec

from moorage.errors import ConfigError

LARGEST_TIMEOUT_MS = 2_147_483_647
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_COMMON = frozenset({"backend", "worker", "lifetime_seconds", "shutdown_timeout_ms", "forward_env"})
_KEPT = frozenset({"workspace", "shared", "persistent"})
_SIZED = frozenset({"network", "cpus", "memory_mb"})
_CLOUD = _COMMON | _KEPT | _SIZED | {"image", "python", "command"}

APPLICABLE_FIELDS: dict[str, frozenset[str]] = {
    "local": _COMMON,
    "docker": _COMMON | _KEPT | _SIZED | {"image", "host_workspace", "mount_read_only", "user"},
    "ssh": _COMMON | _KEPT | {"host", "port", "identity_file", "known_hosts_file"},
    "singularity": _COMMON | _KEPT | _SIZED | {"image", "host_workspace", "mount_read_only"},
    "modal": _CLOUD,
    "daytona": _CLOUD,
    "vercel_sandbox": _CLOUD - {"memory_mb"},
    "command": _COMMON | _KEPT | _SIZED | {"command"},
}
"""Which fields each backend can honour; a field it cannot honour refuses the profile."""


class Profile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A named, user-owned description of an environment."""

    backend: str
    image: str = ""
    host: str = ""
    port: int = 0
    identity_file: str = ""
    known_hosts_file: str = ""
    workspace: str = "/workspace"
    worker: str = "moorage-worker"
    shared: bool = False
    persistent: bool = False
    network: str = ""
    cpus: float = 0
    memory_mb: int = 0
    lifetime_seconds: int = 0
    shutdown_timeout_ms: int = 0
    forward_env: tuple[str, ...] = ()
    host_workspace: str = ""
    mount_read_only: bool = False
    user: str = ""
    python: str = "python3"
    command: tuple[str, ...] = ()


LOCAL = Profile(backend="local")


def check_name(name: str, path: str) -> None:
    """Return when ``name`` may name a profile.

    Raises:
        ConfigError: it is ``local`` or does not have the form of a profile name.
    """
    if name == "local" or not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a profile; use letters, digits, dot, dash and underscore, "
            "at most 64, and not 'local'.",
            path=path,
        )


def parse_profile(value: Any, path: str) -> Profile:
    """Return the profile that a decoded configuration value describes.

    Raises:
        ConfigError: a field is unknown, of the wrong type, out of range, or one that the backend
            cannot honour; ``path`` of the error names it.
    """
    try:
        profile = msgspec.convert(value, Profile)
    except msgspec.ValidationError as error:
        raise ConfigError(_sentence(error), path=_joined(path, error)) from error
    _check_backend(profile, path)
    for field, problem in _problems(profile):
        raise ConfigError(problem, path=f"{path}.{field}")
    return profile


def _check_backend(profile: Profile, path: str) -> None:
    applicable = APPLICABLE_FIELDS.get(profile.backend)
    if applicable is None:
        known = ", ".join(APPLICABLE_FIELDS)
        raise ConfigError(
            f"unknown backend {profile.backend!r}; known are {known}.", path=f"{path}.backend"
        )
    defaults = Profile(backend=profile.backend)
    for field in Profile.__struct_fields__:
        is_set = getattr(profile, field) != getattr(defaults, field)
        if is_set and field not in applicable:
            raise ConfigError(
                f"the backend {profile.backend} cannot honour this field.",
                path=f"{path}.{field}",
                hint="Remove it, or choose a backend that can.",
            )


def _problems(profile: Profile) -> list[tuple[str, str]]:
    """Return every field that is out of range, with a sentence for each."""
    checks = (
        *_required(profile),
        *_numbers(profile),
        *_texts(profile),
    )
    return [(field, sentence) for field, is_fine, sentence in checks if not is_fine]


def _required(profile: Profile) -> list[tuple[str, bool, str]]:
    backend = profile.backend
    needs_image = backend in {"docker", "singularity"} or (
        backend in {"modal", "daytona", "vercel_sandbox"} and not profile.command
    )
    image_is_fine = bool(profile.image.strip()) and not profile.image.startswith("-")
    host_is_fine = bool(profile.host) and not re.search(r"^-|[ \t\r\n\0]", profile.host)
    has_command = bool(profile.command) and bool(profile.command[0].strip())
    return [
        ("image", image_is_fine or not needs_image, "an image is required, not starting with '-'."),
        ("host", host_is_fine or backend != "ssh", "a host is required, without blanks or '-'."),
        (
            "command",
            has_command or backend != "command",
            "an executable and its arguments are required.",
        ),
    ]


def _numbers(profile: Profile) -> list[tuple[str, bool, str]]:
    whole = profile.backend not in {"daytona", "vercel_sandbox"} or profile.cpus == int(
        profile.cpus
    )
    return [
        ("port", 0 <= profile.port <= 65535, "must be from 0 to 65535."),
        ("cpus", 0 <= profile.cpus < float("inf"), "must be 0 or more."),
        ("cpus", whole, "must be a whole number for this backend."),
        ("memory_mb", profile.memory_mb >= 0, "must be 0 or more."),
        ("lifetime_seconds", profile.lifetime_seconds >= 0, "must be 0 or more."),
        (
            "shutdown_timeout_ms",
            0 <= profile.shutdown_timeout_ms <= LARGEST_TIMEOUT_MS,
            f"must be from 0 to {LARGEST_TIMEOUT_MS}.",
        ),
    ]


def _texts(profile: Profile) -> list[tuple[str, bool, str]]:
    workspace = PurePosixPath(profile.workspace)
    workspace_is_fine = (
        workspace.is_absolute()
        and str(workspace) == profile.workspace
        and ".." not in workspace.parts
        and not re.search(r"[\0\r\n]", profile.workspace)
    )
    mount = profile.host_workspace
    mount_is_fine = not mount or (mount.startswith("/") and not re.search(r"[,:\r\n\0]", mount))
    return [
        ("network", profile.network in {"", "enabled", "none"}, "must be enabled or none."),
        ("workspace", workspace_is_fine, "must be an absolute, normalized path."),
        ("host_workspace", mount_is_fine, "must be an absolute path without ',' and ':'."),
        (
            "mount_read_only",
            bool(mount) or not profile.mount_read_only,
            "has no meaning without host_workspace.",
        ),
        ("worker", bool(profile.worker.strip()), "must name the worker's executable."),
        *(
            ("forward_env", bool(_VARIABLE.fullmatch(name)), f"{name!r} is no variable name.")
            for name in profile.forward_env
        ),
    ]


def _sentence(error: msgspec.ValidationError) -> str:
    return str(error).split(" - at `", maxsplit=1)[0].replace("Object ", "the profile ") + "."


def _joined(path: str, error: msgspec.ValidationError) -> str:
    _, found, inner = str(error).partition(" - at `$")
    return path + inner.rstrip("`") if found else path
