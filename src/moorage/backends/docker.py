"""The Docker backend: a container per session, or a shared one; Podman by name."""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import suppress
from importlib.metadata import version

import anyio

from moorage.backends.attaching import connect_words
from moorage.backends.backend import Backend, Placement
from moorage.backends.container import (
    HOME,
    ContainerWorker,
    Order,
    Wanted,
    archive_of,
    check_mount,
    check_same,
    has_account,
    owner,
    wanted_of,
    worker_in,
)
from moorage.backends.delivery import worker_for
from moorage.backends.engine import Engine, last_line
from moorage.backends.grace import grace_seconds
from moorage.backends.locking import alone
from moorage.backends.steps import step
from moorage.confine.private_folders import make_private
from moorage.errors import (
    BackendUnavailable,
    ProtocolMismatch,
    RetainedStateMissing,
    ShutdownIncomplete,
)
from moorage.transports.transport import Transport

PROVISION_SECONDS = 60.0
_PASSWD = "/etc/passwd"  # noqa: S105 - a list of accounts


class ContainerBackend:
    """Makes, adopts, reaches and removes containers by an engine's own command line."""

    def __init__(self, program: str) -> None:
        """Use the engine of this name."""
        self.name = program
        self._engine = Engine(program)

    def keeps_worker(self, placement: Placement) -> bool:
        """Return that it does, as long as the container is there."""
        del placement
        return True

    def root(self, placement: Placement) -> str:
        """Return the workspace inside the container."""
        return placement.profile.workspace

    async def open_transport(self, placement: Placement) -> Transport:
        """Make or adopt the container, and reach the session's worker in it."""
        make_private(placement.host_state)
        lock = placement.host_state / "lock"
        async with alone(lock, PROVISION_SECONDS, "has been making this container"):
            worker = await self._provision(placement)
        words = (*worker.argv, *connect_words(placement))
        return await self._engine.attach(
            placement.identity, words, grace_seconds(placement.profile)
        )

    async def end_worker(self, placement: Placement) -> None:
        """End the session's worker in the container, if both are there."""
        found = await self._engine.inspect("container", placement.identity)
        if found is None or not found["State"]["Running"]:
            return
        words = (*worker_in(found).argv, *connect_words(placement, "--end"))
        seconds = self._engine.limits.start_seconds
        answer = await self._engine.ask("exec", placement.identity, *words, seconds=seconds)
        if answer.exit_code != 0:
            raise ShutdownIncomplete(
                f"the worker in {placement.identity} did not end: {last_line(answer.complaint)}"
            )

    async def release(self, placement: Placement) -> None:
        """Remove the container, unless it is retained."""
        if placement.is_retained:
            return
        limits = self._engine.limits
        words = ("rm", "--force", "--volumes", placement.identity)
        answer = await self._engine.ask(*words, seconds=limits.remove_seconds)
        if answer.exit_code != 0 and "no such" not in answer.complaint.lower():
            raise ShutdownIncomplete(
                f"the container {placement.identity} could not be removed: "
                f"{last_line(answer.complaint)}"
            )
        with suppress(FileNotFoundError):
            placement.provisioned.unlink()

    # Making and adopting.

    async def _provision(self, placement: Placement) -> ContainerWorker:
        """Have the container run, and return the worker that is in it."""
        wanted = wanted_of(placement, owner())
        found = await self._engine.inspect("container", wanted.name)
        if found is None:
            self._check_not_lost(placement)
            worker = await worker_for(self._engine, placement)
            with step("container"):
                await self._create(wanted, placement, worker)
                await self._engine.start(wanted.name)
            return worker
        with step("container"):
            check_same(wanted, found)
            worker = worker_in(found)
            _check_version(worker, wanted)
            if not found["State"]["Running"]:
                await self._engine.start(wanted.name)
        return worker

    def _check_not_lost(self, placement: Placement) -> None:
        if placement.is_retained and placement.provisioned.exists():
            raise RetainedStateMissing(
                f"the retained container {placement.identity} is gone, and what was in it; "
                "nothing was made in its place.",
                hint="Open a new session for an empty one.",
            )

    async def _create(self, wanted: Wanted, placement: Placement, worker: ContainerWorker) -> None:
        check_mount(wanted)
        first = (*worker.argv, *connect_words(placement, "--start"))
        await self._engine.create(Order(wanted=wanted, worker=worker, first_worker=first))
        try:
            made = await self._engine.inspect("container", wanted.name)
            # An engine that cannot limit something says so in passing, and goes on without.
            check_same(wanted, made or {})
            await self._prepare_user(wanted)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._remove(wanted)
            raise

    async def _remove(self, wanted: Wanted) -> None:
        with suppress(BackendUnavailable):
            words = ("rm", "--force", "--volumes", wanted.name)
            await self._engine.ask(*words, seconds=self._engine.limits.remove_seconds)

    async def _prepare_user(self, wanted: Wanted) -> None:
        """Give the user of the container a workspace that is theirs, and a name."""
        uid, _, gid = wanted.user.partition(":")
        if not uid.isdigit() or uid == "0":
            return
        group = int(gid) if gid.isdigit() else int(uid)
        if not wanted.host_workspace:
            folder, name = os.path.split(wanted.workspace)
            await self._put(wanted, folder, archive_of(name, None, int(uid), group))
        accounts = await self._accounts(wanted)
        if accounts is not None and not has_account(accounts, uid):
            line = f"moorage:x:{uid}:{group}:Moorage:{HOME}:/bin/sh\n"
            await self._put(wanted, "/etc", archive_of("passwd", (accounts + line).encode()))

    async def _accounts(self, wanted: Wanted) -> str | None:
        words = ("cp", f"{wanted.name}:{_PASSWD}", "-")
        answer = await self._engine.ask(*words, seconds=self._engine.limits.look_seconds)
        if answer.exit_code != 0:
            return None
        with tarfile.open(fileobj=io.BytesIO(answer.output)) as archive:
            member = archive.extractfile("passwd")
            return None if member is None else member.read().decode("utf-8", "replace")

    async def _put(self, wanted: Wanted, folder: str, archive: bytes) -> None:
        await self._engine.order(
            *("cp", "-", f"{wanted.name}:{folder}"),
            seconds=self._engine.limits.start_seconds,
            failing=f"the container {wanted.name} could not be prepared",
            data=archive,
        )


def _check_version(worker: ContainerWorker, wanted: Wanted) -> None:
    own = version("moorage")
    if worker.version != own:
        raise ProtocolMismatch(
            f"the container {wanted.name} was made with Moorage {worker.version}, and this is "
            f"{own}.",
            hint="Go on with that version, or remove the container if nothing in it is needed.",
        )


BACKEND: Backend = ContainerBackend("docker")
