"""One container: how it is made, and whether one that is there is the same (pure)."""

from __future__ import annotations

import getpass
import io
import os
import socket
import sys
import tarfile
from typing import Any

import msgspec

from moorage.backends.backend import Placement
from moorage.errors import ProvisionError

LABEL_IDENTITY = "moorage.identity"
LABEL_OWNER = "moorage.owner"
LABEL_STATE = "moorage.state"
LABEL_WORKER = "moorage.worker"
LABEL_RETAINED = "moorage.retained"

HOME = "/tmp/moorage-home"  # noqa: S108 - inside the container, private to its user
WORKER_FOLDER = "/opt/moorage-worker"
PIDS_LIMIT = 512

# The home is made by whoever the container runs as. What follows starts the first worker early.
_KEEP_ALIVE = 'mkdir -p "$HOME" && chmod 700 "$HOME"; "$@" & exec sleep 2147483647'


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is to be."""

    name: str
    image: str
    owner: str
    state: str
    workspace: str
    user: str
    host_workspace: str
    is_read_only: bool
    network: str
    cpus: float
    memory_mb: int
    is_retained: bool = False


def owner() -> str:
    """Return who makes containers here: the user, at this machine."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def labels_of(identity: str, owner: str, state: str, *, is_retained: bool) -> dict[str, str]:
    """Return the labels that say whose a container is, so that it is found without its host."""
    return {
        LABEL_IDENTITY: identity,
        LABEL_OWNER: owner,
        LABEL_STATE: state,
        LABEL_RETAINED: "yes" if is_retained else "no",
    }


def label_words(labels: dict[str, str]) -> list[str]:
    """Return labels as the command line takes them."""
    return [f"--label={name}={value}" for name, value in labels.items()]


def wanted_of(placement: Placement, owner: str) -> Wanted:
    """Return what the container of a placement is to be."""
    profile = placement.profile
    user = profile.user
    if not user and profile.host_workspace and sys.platform == "linux":
        # Files of the mounted workspace are to stay the user's own.
        user = f"{os.getuid()}:{os.getgid()}"
    return Wanted(
        name=placement.identity,
        image=profile.image,
        owner=owner,
        state=str(placement.host_state),
        workspace=profile.workspace,
        user=user,
        host_workspace=profile.host_workspace,
        is_read_only=profile.mount_read_only,
        network="none" if profile.network == "none" else "",
        cpus=profile.cpus,
        memory_mb=profile.memory_mb,
        is_retained=placement.is_retained,
    )


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the host (``bind``) or a volume of the engine, and where it is seen."""

    kind: str
    source: str
    target: str
    is_read_only: bool = False

    def word(self) -> str:
        """Return it for the command line."""
        mount = f"type={self.kind},source={self.source},target={self.target}"
        return f"--mount={mount}{',readonly' if self.is_read_only else ''}"

    def body(self) -> dict[str, Any]:
        """Return it for the engine itself."""
        return {
            "Type": self.kind,
            "Source": self.source,
            "Target": self.target,
            "ReadOnly": self.is_read_only,
        }


class ContainerWorker(msgspec.Struct, frozen=True, kw_only=True):
    """How the worker of a container is started, which one it is, and what is mounted for it."""

    argv: tuple[str, ...]
    version: str
    mounts: tuple[Mount, ...] = ()


def worker_in(found: dict[str, Any]) -> ContainerWorker:
    """Return the worker that a container was made with.

    Raises:
        ProvisionError: nothing says which.
    """
    labels = (found.get("Config") or {}).get("Labels") or {}
    try:
        return msgspec.json.decode(labels.get(LABEL_WORKER, ""), type=ContainerWorker)
    except msgspec.DecodeError as error:
        raise ProvisionError(
            f"nothing says which worker the container {found.get('Name', '')[1:]} has; "
            "it was left alone.",
            hint="Remove it if nothing in it is needed.",
        ) from error


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is told to make: said as the words of its command line or as JSON."""

    wanted: Wanted
    worker: ContainerWorker
    first_worker: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """Return what runs in the container, after its shell."""
        return ("-c", _KEEP_ALIVE, "sh", *self.first_worker)

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the container."""
        wanted = self.wanted
        of = labels_of(wanted.name, wanted.owner, wanted.state, is_retained=wanted.is_retained)
        return of | {LABEL_WORKER: msgspec.json.encode(self.worker).decode()}

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """Return what is mounted."""
        wanted = self.wanted
        if not wanted.host_workspace:
            return self.worker.mounts
        workspace = Mount(
            kind="bind",
            source=wanted.host_workspace,
            target=wanted.workspace,
            is_read_only=wanted.is_read_only,
        )
        return (workspace, *self.worker.mounts)

    def words(self) -> tuple[str, ...]:
        """Return the order for the command line."""
        wanted = self.wanted
        words = ["create", "--init", f"--name={wanted.name}", f"--workdir={wanted.workspace}"]
        words += label_words(self.labels)
        words += ["--cap-drop=ALL", "--security-opt=no-new-privileges"]
        words += [f"--pids-limit={PIDS_LIMIT}", f"--env=HOME={HOME}"]
        words += [f"--user={wanted.user}"] if wanted.user else []
        words += [f"--network={wanted.network}"] if wanted.network else []
        words += [f"--cpus={wanted.cpus:g}"] if wanted.cpus else []
        if wanted.memory_mb:
            # As much swap as memory would make the limit twice what it says.
            words += [f"--memory={wanted.memory_mb}m", f"--memory-swap={wanted.memory_mb}m"]
        words += [mount.word() for mount in self.mounts]
        return (*words, "--entrypoint=/bin/sh", wanted.image, *self.command)

    def body(self) -> dict[str, Any]:
        """Return the same order for the engine itself."""
        wanted = self.wanted
        limits = {
            "NanoCpus": round(wanted.cpus * 1e9),
            "Memory": wanted.memory_mb * 2**20,
            "MemorySwap": wanted.memory_mb * 2**20,
            "PidsLimit": PIDS_LIMIT,
        }
        return {
            "Image": wanted.image,
            "User": wanted.user,
            "WorkingDir": wanted.workspace,
            "Env": [f"HOME={HOME}"],
            "Labels": self.labels,
            "Entrypoint": ["/bin/sh"],
            "Cmd": self.command,
            "HostConfig": limits
            | {
                "Init": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "NetworkMode": wanted.network or "default",
                "Mounts": [mount.body() for mount in self.mounts],
            },
        }


def check_mount(wanted: Wanted) -> None:
    """Return when the folder that is to be mounted is there.

    Raises:
        ProvisionError: it is not; an engine would make an empty one.
    """
    if wanted.host_workspace and not os.path.isdir(wanted.host_workspace):
        raise ProvisionError(
            f"the folder {wanted.host_workspace} that the profile mounts is not there.",
            hint="Make it, or change host_workspace.",
        )


def check_same(wanted: Wanted, found: dict[str, Any]) -> None:
    """Return when a container that is there is what it is to be.

    Raises:
        ProvisionError: it belongs to someone else, or differs; it was left alone.
    """
    config, host = found.get("Config") or {}, found.get("HostConfig") or {}
    labels = config.get("Labels") or {}
    if labels.get(LABEL_IDENTITY) != wanted.name or labels.get(LABEL_OWNER) != wanted.owner:
        raise ProvisionError(
            f"a container named {wanted.name} is there, and it is not of this Moorage; "
            "it was left alone.",
            hint="Remove or rename it.",
        )
    facts = {
        "image": (config.get("Image"), wanted.image),
        "user": (config.get("User") or "", wanted.user or config.get("User") or ""),
        "network": (host.get("NetworkMode") == "none", wanted.network == "none"),
        "CPUs": (host.get("NanoCpus") or 0, round(wanted.cpus * 1e9)),
        "memory": (host.get("Memory") or 0, wanted.memory_mb * 2**20),
        "swap": (host.get("MemorySwap") or 0, wanted.memory_mb * 2**20),
        "processes": (host.get("PidsLimit"), PIDS_LIMIT),
        "capabilities": ("ALL" in (host.get("CapDrop") or ()), True),
        "mount": (_mount(found, wanted.workspace), _wanted_mount(wanted)),
    }
    different = [name for name, (is_, should) in facts.items() if is_ != should]
    if different:
        raise ProvisionError(
            f"the container {wanted.name} is there with another {', '.join(different)}; "
            "it was left alone.",
            hint=f"Remove it (`docker rm --force {wanted.name}`) if nothing in it is needed.",
        )


def _mount(found: dict[str, Any], target: str) -> tuple[str, bool] | None:
    for mount in found.get("Mounts") or ():
        if mount.get("Destination") == target and mount.get("Type") == "bind":
            return str(mount.get("Source")), not mount.get("RW")
    return None


def _wanted_mount(wanted: Wanted) -> tuple[str, bool] | None:
    if not wanted.host_workspace:
        return None
    return os.path.realpath(wanted.host_workspace), wanted.is_read_only


def has_account(accounts: str, uid: str) -> bool:
    """Return whether a list of accounts knows the user of this number."""
    return any(line.split(":")[2:3] == [uid] for line in accounts.splitlines())


def archive_of(name: str, content: bytes | None, uid: int = 0, gid: int = 0) -> bytes:
    """Return an archive of one file, or of one empty folder where there is no content."""
    member = tarfile.TarInfo(name)
    member.uid, member.gid = uid, gid
    if content is None:
        member.type, member.mode = tarfile.DIRTYPE, 0o700
    else:
        member.size, member.mode = len(content), 0o644
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(member, io.BytesIO(content or b""))
    return written.getvalue()
