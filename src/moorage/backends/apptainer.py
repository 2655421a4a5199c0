"""The backend for Apptainer, or Singularity: one container a connection, its folders on the host.

The worker is the container's only program and ends with its connection, so nothing that runs
outlives it; the workspace does, where the profile says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from importlib.metadata import version

import anyio
import anyio.to_thread
import msgspec

from moorage.backends.backend import Backend, Placement
from moorage.backends.bundle import bundle_argv, find_bundle
from moorage.backends.engine import last_line
from moorage.backends.grace import grace_seconds
from moorage.backends.locking import alone
from moorage.backends.profile import LOCAL, Profile
from moorage.backends.steps import step
from moorage.backends.transport_variables import transport_variables
from moorage.backends.unpacking import unpacked
from moorage.confine.private_folders import make_private, replace_private
from moorage.errors import (
    BackendUnavailable,
    ProtocolMismatch,
    ProvisionError,
    RetainedStateMissing,
    ShutdownIncomplete,
)
from moorage.process.leftovers import remove_tree
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

PROGRAMS = ("apptainer", "singularity")
HOME = "/home/moorage"
WORKER_FOLDER = "/opt/moorage-worker"

LOOK_SECONDS = 120.0
"""For the first start of an image, which may have to be pulled and converted."""

LOCK_SECONDS = 60.0

_NO_WORKER = 93
"""Exit code of our own look into an image."""


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about an image: the version of its worker, or none."""

    worker: str
    version: str


class ApptainerBackend:
    """Starts containers by the program that is installed."""

    name = "singularity"

    def keeps_worker(self, placement: Placement) -> bool:
        """Return that it does not: the container ends with its connection."""
        del placement
        return False

    def root(self, placement: Placement) -> str:
        """Return the workspace inside the container."""
        return placement.profile.workspace

    async def open_transport(self, placement: Placement) -> Transport:
        """Start a container with a worker in it.

        Raises:
            RetainedStateMissing: the workspace that was kept is gone; nothing was made.
            ProvisionError: there is no program, no image, or no worker for it.
        """
        program = installed_program()
        make_private(placement.host_state)
        async with alone(placement.host_state / "lock", LOCK_SECONDS, "has been preparing this"):
            _make_folders(placement)
            with step("image"):
                worker = await self._worker(program, placement)
        words = (f"--mode={placement.mode.value}",)
        return await ChildTransport.start(
            (*_exec(program, placement, worker), *words),
            variables=transport_variables(),
            grace_seconds=grace_seconds(placement.profile),
        )

    async def end_worker(self, placement: Placement) -> None:
        """Do nothing: no worker outlives its connection."""

    async def release(self, placement: Placement) -> None:
        """Remove the folders of the environment, unless it is retained."""
        if placement.is_retained:
            return
        try:
            await anyio.to_thread.run_sync(remove_tree, placement.host_state)
        except OSError as error:
            raise ShutdownIncomplete(
                f"{placement.host_state} could not be removed: {error}.",
                hint="Remove it by hand, perhaps as another user.",
            ) from error

    async def _worker(self, program: str, placement: Placement) -> tuple[str, ...]:
        """Return what starts the worker, of the image or of ours.

        Raises:
            ProtocolMismatch: the image has a worker of another version.
        """
        profile, own = placement.profile, version("moorage")
        found = await self._installed_version(program, placement)
        if found == own:
            return (profile.worker,)
        if found:
            raise ProtocolMismatch(
                f"the image {profile.image} has Moorage {found}, and this is {own}.",
                hint="Install this version in the image, or take the worker out of it: then it is "
                "delivered.",
            )
        if profile.worker != LOCAL.worker:
            raise ProvisionError(
                f"the image {profile.image} has no worker {profile.worker!r}.",
                hint="Leave `worker` out of the profile to have one delivered.",
            )
        return bundle_argv(WORKER_FOLDER)

    async def _installed_version(self, program: str, placement: Placement) -> str:
        """Return the version of the worker in the image, or nothing; it is found out once."""
        file = placement.host_state.parent / "images" / f"{_image_key(placement.profile)}.json"
        worker = placement.profile.worker
        try:
            known = msgspec.json.decode(file.read_bytes(), type=_Known)
            if known.worker == worker:
                return known.version
        except (FileNotFoundError, msgspec.DecodeError):
            pass
        argv = (program, "--quiet", "exec", "--containall", placement.profile.image)
        with step("first start", f"getting and starting the image {placement.profile.image}"):
            found = await _ask_version(argv, worker)
        make_private(file.parent)
        replace_private(file, msgspec.json.encode(_Known(worker=worker, version=found)))
        return found


async def _ask_version(argv: tuple[str, ...], worker: str) -> str:
    """Return the version that a worker in an image names, or nothing where there is none.

    Raises:
        ProvisionError: the image cannot be had or run.
    """
    script = 'command -v "$0" >/dev/null 2>&1 || exit 93; exec "$0" --version'
    try:
        with anyio.fail_after(LOOK_SECONDS):
            ended = await anyio.run_process(
                [*argv, "/bin/sh", "-c", script, worker],
                check=False,
                stdin=subprocess.DEVNULL,
                env=transport_variables(),
            )
    except TimeoutError as error:
        raise ProvisionError(f"the image did not start within {LOOK_SECONDS:g} s.") from error
    told = ended.stdout.decode("utf-8", "replace").split()
    if ended.returncode == 0 and len(told) == 2:
        return told[1]
    if ended.returncode == _NO_WORKER:
        return ""
    complaint = last_line(ended.stderr.decode("utf-8", "replace"))
    raise ProvisionError(f"the image {argv[-1]} cannot be used: {complaint}")


def installed_program() -> str:
    """Return the path of the program.

    Raises:
        BackendUnavailable: none is installed.
    """
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    raise BackendUnavailable(
        "neither apptainer nor singularity is installed here.",
        hint="Install Apptainer, or choose another environment; nothing runs locally in its place.",
    )


def _make_folders(placement: Placement) -> None:
    profile, state = placement.profile, placement.host_state
    workspace = state / "workspace"
    if profile.host_workspace:
        if not os.path.isdir(profile.host_workspace):
            raise ProvisionError(
                f"the folder {profile.host_workspace} that the profile mounts is not there.",
                hint="Make it, or change host_workspace.",
            )
    elif profile.persistent and placement.provisioned.exists() and not workspace.is_dir():
        raise RetainedStateMissing(
            f"the retained workspace {workspace} is gone; nothing was made in its place.",
            hint="Put it back, or open a new session for an empty one.",
        )
    else:
        make_private(workspace)
    make_private(state / "home")


def _exec(program: str, placement: Placement, worker: tuple[str, ...]) -> tuple[str, ...]:
    """Return the argument vector that starts a container with the worker in it."""
    profile, state = placement.profile, placement.host_state
    source = profile.host_workspace or str(state / "workspace")
    ending = ":ro" if profile.mount_read_only else ""
    words = ["--containall", "--cleanenv", "--writable-tmpfs"]
    words += ["--home", f"{state / 'home'}:{HOME}"]
    words += ["--bind", f"{source}:{profile.workspace}{ending}", "--pwd", profile.workspace]
    if worker[0] != profile.worker:
        folder = unpacked(find_bundle(), state.parent / "bundles")
        words += ["--bind", f"{folder}:{WORKER_FOLDER}:ro"]
    words += ["--cpus", f"{profile.cpus:g}"] if profile.cpus else []
    words += ["--memory", f"{profile.memory_mb}M"] if profile.memory_mb else []
    words += ["--net", "--network", "none"] if profile.network == "none" else []
    return (program, "--quiet", "exec", *words, profile.image, *worker)


def _image_key(profile: Profile) -> str:
    """Return what an image is known by: its text, and of a file also which one it is now."""
    told = profile.image
    try:
        status = os.stat(profile.image)
        told = f"{os.path.realpath(profile.image)}:{status.st_mtime_ns}:{status.st_size}"
    except OSError:
        pass
    return hashlib.sha256(told.encode()).hexdigest()[:32]


BACKEND: Backend = ApptainerBackend()
