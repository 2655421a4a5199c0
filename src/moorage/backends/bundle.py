"""The portable worker as the host keeps it: an archive that is found, verified, and started.

It brings its own Python and C library along, so an environment needs neither, nor a shell. Who puts
it into an environment is the backend; ``scripts/build-worker-bundle`` makes it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from importlib.metadata import version as version_of
from pathlib import Path

import msgspec

from moorage.confine.own_interpreter import TOP, bundled_interpreter
from moorage.errors import ConfigError, ProvisionError

VARIABLE = "MOORAGE_WORKER_BUNDLE"
MACHINE = "x86_64"
MAX_BYTES = 25 * 1024 * 1024

_PACKAGED = Path(__file__).resolve().parent.parent / "bundles"
_BUILD = (
    "Run scripts/build-worker-bundle in a checkout of Moorage {}, or install Moorage in the "
    "environment."
)
_HASH = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"moorage-worker-(.+)-linux-\w+\.tar\.gz")


class WorkerBundle(msgspec.Struct, frozen=True, kw_only=True):
    """One archive of the portable worker, and what it must be to be believed."""

    archive: Path
    sha256: str
    version: str

    def read_verified(self) -> bytes:
        """Return the archive when its hash is right; unpacked it is one folder, ``TOP``.

        Raises:
            ProvisionError: it cannot be read, or is not what was built.
        """
        try:
            with self.archive.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise ProvisionError(
                f"the portable worker {self.archive} cannot be read: {error.strerror or error}.",
                hint=_how_to_build(),
            ) from error
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise ProvisionError(
                f"the portable worker {self.archive} is damaged: its SHA-256 is not the one that "
                f"{hash_file(self.archive).name} names, and it was not delivered.",
                hint=_how_to_build(),
            )
        return data


def find_bundle(variables: Mapping[str, str] = os.environ) -> WorkerBundle:
    """Return the portable worker of this version, of which nothing but its hash has been read.

    ``MOORAGE_WORKER_BUNDLE`` names one; otherwise it comes with the package, or was built here.

    Raises:
        ProvisionError: there is none, or the one that was named cannot be used.
    """
    named = variables.get(VARIABLE, "")
    if named:
        return _bundle(Path(named))
    name = archive_name(version_of("moorage"))
    for folder in (_PACKAGED, bundles_folder(variables)):
        if (folder / name).is_file():
            return _bundle(folder / name)
    raise ProvisionError(
        f"the environment has no worker, and there is no portable worker of Moorage "
        f"{version_of('moorage')} to give it.",
        hint=_how_to_build(),
    )


def bundle_argv(folder: str) -> tuple[str, ...]:
    """Return the argument vector that starts the worker; its own arguments follow.

    ``folder`` is the absolute path, inside the environment, that the archive was unpacked in.

    Raises:
        ConfigError: no library can be found by such a path.
    """
    if not folder.startswith("/") or any(mark in folder for mark in ":;$"):
        raise ConfigError(
            f"the portable worker cannot start from {folder!r}.",
            hint="Choose an absolute path without a colon, semicolon or dollar sign.",
        )
    return (*bundled_interpreter(f"{folder.rstrip('/')}/{TOP}"), "-m", "moorage.worker")


def archive_name(version: str, machine: str = MACHINE) -> str:
    """Return the name of the archive of one version, for environments of one kind of machine."""
    return f"moorage-worker-{version}-linux-{machine}.tar.gz"


def hash_file(archive: Path) -> Path:
    """Return the file beside an archive that names its hash, as ``sha256sum`` writes it."""
    return archive.with_name(f"{archive.name}.sha256")


def bundles_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's state that portable workers are kept in."""
    if home := variables.get("MOORAGE_HOME", ""):
        return Path(home) / "state" / "bundles"
    user = Path(variables.get("HOME") or Path.home())
    state = Path(variables.get("XDG_STATE_HOME") or user / ".local" / "state")
    return state / "moorage" / "bundles"


def _bundle(archive: Path) -> WorkerBundle:
    found = _NAME.fullmatch(archive.name)
    own = version_of("moorage")
    if found is None or found[1] != own:
        raise ProvisionError(
            f"{archive} is no portable worker of Moorage {own}, by its name.",
            hint=f"Name one that is called {archive_name(own)}.",
        )
    try:
        told = hash_file(archive).read_text("ascii").split()
    except (OSError, ValueError):
        told = []
    if not told or not _HASH.fullmatch(told[0]):
        raise ProvisionError(
            f"the hash of the portable worker {archive} is unknown: {hash_file(archive).name} "
            "beside it cannot be read or names none.",
            hint=_how_to_build(),
        )
    return WorkerBundle(archive=archive, sha256=told[0], version=own)


def _how_to_build() -> str:
    return _BUILD.format(version_of("moorage"))
