"""Copies published files home: reads the worker's snapshot and keeps it with the session."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from moorage.confine.private_folders import make_private
from moorage.connection.host_end import HostConnection
from moorage.errors import ConfigError, ExecutionError, RemoteProtocolViolation
from moorage.host.in_flight import in_order
from moorage.host.results import Artifact
from moorage.protocol.exports import ExportCloseRequest, ExportReadReply, ExportReadRequest
from moorage.protocol.tool_calls import ArtifactPart, ContentPart, ToolResult

LARGEST_ARTIFACT_BYTES = 256 * 1024 * 1024
LONGEST_NAME_BYTES = 255
_KEPT_SUFFIX = 32
CLOSE_SECONDS = 5.0


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker says of a snapshot: its token, a plain file name, and its size in bytes."""

    execution_export: str
    name: str
    size: int


async def collect(connection: HostConnection, result: ToolResult, folder: Path) -> ToolResult:
    """Return ``result`` with its offer replaced by the copy that now lies in ``folder``.

    Raises:
        RemoteProtocolViolation: the offer is malformed, or the snapshot is longer or shorter than
            it says.
        ConfigError: the copy cannot be kept.

    Whatever happens, the remote side is told to drop the snapshot.
    """
    offer = _offer(result)
    staged = folder / f".{secrets.token_hex(8)}"
    try:
        make_private(folder)
        digest = await _download(connection, offer, staged)
        kept = _free_name(folder, offer.name)
        staged.rename(kept)
    except OSError as error:
        raise ConfigError(
            f"the artifact {offer.name} cannot be kept in {folder}: {error.strerror}.",
            hint="Make room in Moorage's home, then publish it again.",
        ) from error
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        await _close(connection, offer)
    return _published(Artifact(name=offer.name, path=kept, sha256=digest, size_bytes=offer.size))


def artifact_of(result: ToolResult) -> Artifact:
    """Return the artifact that a collected result tells of."""
    told = result.structured_content or {}
    return Artifact(
        name=told["name"],
        path=Path(told["path"]),
        sha256=told["sha256"],
        size_bytes=told["size_bytes"],
    )


def _offer(result: ToolResult) -> Offer:
    try:
        offer = msgspec.json.decode(result.text, type=Offer)
    except msgspec.DecodeError as error:
        raise RemoteProtocolViolation(f"the worker's export is malformed: {error}.") from error
    if not (
        offer.execution_export
        and _is_plain(offer.name)
        and 0 <= offer.size <= LARGEST_ARTIFACT_BYTES
    ):
        raise RemoteProtocolViolation("the worker's export has no token, plain name or legal size.")
    return offer


def _is_plain(name: str) -> bool:
    """Return whether a text can be the name of one file, and be shown to a person."""
    is_short = len(name.encode("utf-8", "replace")) <= LONGEST_NAME_BYTES
    return is_short and name not in {"", ".", ".."} and "/" not in name and name.isprintable()


async def _download(connection: HostConnection, offer: Offer, staged: Path) -> str:
    digest = hashlib.sha256()
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    async def ask(offset: int) -> ExportReadReply:
        request = ExportReadRequest(token=offer.execution_export, offset=offset)
        return await connection.request("export/read", request, ExportReadReply)

    with os.fdopen(descriptor, "wb") as file:

        def take(offset: int, reply: ExportReadReply) -> None:
            end = offset + len(reply.data)
            if end > offer.size or not (reply.data or reply.eof):
                raise RemoteProtocolViolation("the export is longer than it says, or stalls.")
            if reply.eof != (end == offer.size):
                raise RemoteProtocolViolation(f"the export ended at {end} of {offer.size} bytes.")
            digest.update(reply.data)
            file.write(reply.data)

        first = await ask(0)
        take(0, first)
        # How large its pieces are is the worker's choice; all but the last are as the first.
        step = max(len(first.data), 1)
        await in_order(range(step, offer.size, step), ask, _checked(take, step, offer.size))
    return digest.hexdigest()


def _checked(
    take: Callable[[int, ExportReadReply], None], step: int, size: int
) -> Callable[[int, ExportReadReply], None]:
    """Return what takes pieces that are all of one size, but for the last."""

    def take_one(offset: int, reply: ExportReadReply) -> None:
        if len(reply.data) != min(step, size - offset):
            raise RemoteProtocolViolation(f"the export stalled at {offset} of {size} bytes.")
        take(offset, reply)

    return take_one


async def _close(connection: HostConnection, offer: Offer) -> None:
    """Tell the worker to drop the snapshot; it drops it with its own end at the latest."""
    request = ExportCloseRequest(token=offer.execution_export)
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        try:
            await connection.request("export/close", request, msgspec.Raw)
        except ExecutionError:
            return


def _free_name(folder: Path, name: str) -> Path:
    plain, number = folder / name, 1
    candidate = plain
    while candidate.exists():
        ending = f"-{number}{plain.suffix[:_KEPT_SUFFIX]}"
        stem = plain.stem.encode()[: LONGEST_NAME_BYTES - len(ending.encode())]
        candidate, number = folder / f"{stem.decode(errors='ignore')}{ending}", number + 1
    return candidate


def _published(artifact: Artifact) -> ToolResult:
    structured: dict[str, Any] = {
        "action": "present_artifact",
        "name": artifact.name,
        "path": str(artifact.path),
        "sha256": artifact.sha256,
        "size_bytes": artifact.size_bytes,
    }
    link = ContentPart(
        type="resource_link",
        name=artifact.name,
        uri=artifact.path.as_uri(),
        artifact=ArtifactPart(
            placement="inline",
            ref=str(artifact.path),
            sha256=artifact.sha256,
            size_bytes=artifact.size_bytes,
        ),
    )
    text = f"Published {artifact.name} ({artifact.size_bytes} bytes)."
    return ToolResult(
        content=(ContentPart(type="text", text=text), link), structured_content=structured
    )
