"""Which worker an image has, and how it gets ours when it has none: once per image and engine."""

from __future__ import annotations

import os
from importlib.metadata import version

import msgspec

from moorage.backends.backend import Placement
from moorage.backends.bundle import WorkerBundle, bundle_argv, find_bundle
from moorage.backends.container import (
    WORKER_FOLDER,
    ContainerWorker,
    Mount,
    label_words,
    labels_of,
    owner,
)
from moorage.backends.engine import Engine, last_line
from moorage.backends.locking import alone
from moorage.backends.profile import LOCAL
from moorage.backends.steps import step
from moorage.confine.private_folders import make_private, replace_private
from moorage.errors import ProtocolMismatch, ProvisionError

DELIVER_SECONDS = 120.0
LABEL_BUNDLE = "moorage.bundle"


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about an image: the version of its worker, or none."""

    worker: str
    version: str


async def worker_for(engine: Engine, placement: Placement) -> ContainerWorker:
    """Return the worker that the containers of a profile's image have, or are given.

    Raises:
        ProvisionError: the image cannot be had, or there is no worker for it.
        ProtocolMismatch: the image has a worker of another version.
    """
    with step("image"):
        image_id = await _image(engine, placement.profile.image)
    with step("worker"):
        return await _worker_in(engine, placement, image_id)


async def _worker_in(engine: Engine, placement: Placement, image_id: str) -> ContainerWorker:
    worker = placement.profile.worker
    found = await _installed_version(engine, placement, image_id)
    own = version("moorage")
    if found == own:
        return ContainerWorker(argv=(worker,), version=own)
    if found:
        raise ProtocolMismatch(
            f"the image {placement.profile.image} has Moorage {found}, and this is {own}.",
            hint="Install this version in the image, or take the worker out of it: then it is "
            "delivered.",
        )
    if worker != LOCAL.worker:
        raise ProvisionError(
            f"the image {placement.profile.image} has no worker {worker!r}.",
            hint="Leave `worker` out of the profile to have one delivered.",
        )
    bundle = find_bundle()
    await _deliver(engine, placement, bundle)
    mount = _mount(_volume(bundle), is_read_only=True)
    return ContainerWorker(argv=bundle_argv(WORKER_FOLDER), version=own, mounts=(mount,))


async def _image(engine: Engine, image: str) -> str:
    """Return the id of an image, which is pulled when the engine does not have it."""
    found = await engine.inspect("image", image)
    if found is None:
        with step("pull", f"pulling the image {image}"):
            await engine.order(
                "pull",
                image,
                seconds=engine.limits.create_seconds,
                failing=f"the image {image} is not there and cannot be pulled",
            )
        found = await engine.inspect("image", image)
    if found is None:
        raise ProvisionError(f"the image {image} is not there.")
    return str(found["Id"]).removeprefix("sha256:")


async def _installed_version(engine: Engine, placement: Placement, image_id: str) -> str:
    """Return the version of the worker in an image, or nothing; it is found out once."""
    images = placement.host_state.parent / "images"
    file = images / f"{image_id}.json"
    worker = placement.profile.worker
    try:
        known = msgspec.json.decode(file.read_bytes(), type=_Known)
        if known.worker == worker:
            return known.version
    except (FileNotFoundError, msgspec.DecodeError):
        pass
    words = ("run", "--rm", "--network=none", "--cap-drop=ALL", f"--entrypoint={worker}", image_id)
    answer = await engine.ask(*words, "--version", seconds=engine.limits.start_seconds)
    told = answer.output.decode("utf-8", "replace").split()
    found = told[-1] if answer.exit_code == 0 and len(told) == 2 else ""
    if not found and answer.exit_code not in {126, 127}:
        await engine.check_running()
        raise ProvisionError(
            f"the image {placement.profile.image} cannot be run: {last_line(answer.complaint)}"
        )
    make_private(images)
    replace_private(file, msgspec.json.encode(_Known(worker=worker, version=found)))
    return found


def _volume(bundle: WorkerBundle) -> str:
    return f"moorage-worker-{bundle.sha256[:24]}"


def _mount(volume: str, *, is_read_only: bool = False) -> Mount:
    return Mount(kind="volume", source=volume, target=WORKER_FOLDER, is_read_only=is_read_only)


async def _deliver(engine: Engine, placement: Placement, bundle: WorkerBundle) -> None:
    """Put the portable worker into a volume of the engine, once."""
    bundles = placement.host_state.parent / "bundles"
    make_private(bundles)
    name = _volume(bundle)
    async with alone(bundles / f"{name}.lock", DELIVER_SECONDS, "has been delivering the worker"):
        marker = bundles / f"{name}-{engine.program}"
        found = await engine.inspect("volume", name)
        if found is not None and marker.exists() and marker.read_text() == _birth(found):
            return
        if found is not None:
            # Nobody finished it; a container that uses it still keeps it from being removed.
            await engine.ask("volume", "rm", name, seconds=engine.limits.look_seconds)
        with step("delivery", f"delivering the worker to {engine.program}, once"):
            await _fill(engine, placement, bundle, name)
        made = await engine.inspect("volume", name)
        replace_private(marker, _birth(made or {}).encode())


async def _fill(engine: Engine, placement: Placement, bundle: WorkerBundle, name: str) -> None:
    failing = "the worker could not be delivered"
    seconds = engine.limits.start_seconds
    label = f"--label={LABEL_BUNDLE}={bundle.sha256}"
    await engine.order("volume", "create", label, name, seconds=seconds, failing=failing)
    carrier = f"{name}-{os.urandom(4).hex()}"
    image = placement.profile.image
    labels = labels_of(placement.identity, owner(), str(placement.host_state), is_retained=False)
    named = (f"--name={carrier}", *label_words(labels))
    words = ("create", *named, _mount(name).word(), "--entrypoint=/x", image)
    await engine.order(*words, seconds=seconds, failing=failing)
    try:
        await engine.order(
            *("cp", "-", f"{carrier}:{WORKER_FOLDER}"),
            seconds=seconds,
            failing=failing,
            data=bundle.read_verified(),
        )
    finally:
        await engine.ask("rm", "--force", carrier, seconds=seconds)


def _birth(volume: dict[str, object]) -> str:
    return str(volume.get("CreatedAt", ""))
