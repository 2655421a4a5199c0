"""What the host makes of an export, whatever the worker says of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from moorage.connection.provider import RequestContext
from moorage.errors import ConfigError, ExecutionError, RemoteProtocolViolation, WorkerFailure
from moorage.host.artifacts import artifact_of, collect
from moorage.protocol.exports import (
    ExportClosed,
    ExportCloseRequest,
    ExportReadReply,
    ExportReadRequest,
)
from moorage.protocol.tool_calls import ContentPart, ToolResult
from moorage.testing.fakes import FakeProvider, joined
from moorage.testing.playbook import BINDING

PIECES = [b"one" * 1000, b"two" * 1000, b"three"]
WHOLE = b"".join(PIECES)


class Exporter:
    """A worker that offers a snapshot and says of it what a test wants."""

    def __init__(self, replies: list[ExportReadReply]) -> None:
        self.replies = replies
        self.asked: list[int] = []
        self.closed: list[str] = []

    def provider(self) -> FakeProvider:
        return FakeProvider({"export/read": self.read, "export/close": self.close})

    async def read(self, request: ExportReadRequest, _: RequestContext) -> ExportReadReply:
        self.asked.append(request.offset)
        if not self.replies:
            raise WorkerFailure("the disk of the worker failed.")
        return self.replies.pop(0)

    async def close(self, request: ExportCloseRequest, _: RequestContext) -> ExportClosed:
        self.closed.append(request.token)
        return ExportClosed()


def in_pieces() -> list[ExportReadReply]:
    return [
        ExportReadReply(data=piece, eof=number == len(PIECES) - 1)
        for number, piece in enumerate(PIECES)
    ]


def offer(**changes: Any) -> ToolResult:
    told = {"execution_export": "t1", "name": "a.txt", "size": len(WHOLE)} | changes
    return ToolResult(content=(ContentPart(type="text", text=json.dumps(told)),))


async def collected(exporter: Exporter, result: ToolResult, folder: Path) -> ToolResult:
    failure: ExecutionError | None = None
    with anyio.fail_after(5):
        async with joined(exporter.provider()) as pair:
            await pair.host.initialize(BINDING)
            try:
                return await collect(pair.host, result, folder)
            except ExecutionError as error:  # raised again where no task group wraps it
                failure = error
    assert failure is not None
    raise failure


async def test_a_snapshot_of_several_pieces_is_kept_as_it_was(tmp_path: Path) -> None:
    exporter = Exporter(in_pieces())
    artifact = artifact_of(await collected(exporter, offer(), tmp_path / "kept"))
    assert artifact.path.read_bytes() == WHOLE
    assert artifact.sha256 == hashlib.sha256(WHOLE).hexdigest()
    assert artifact.path.stat().st_mode & 0o777 == 0o600
    assert (exporter.asked, exporter.closed) == ([0, 3000, 6000], ["t1"])


@pytest.mark.parametrize(
    ("replies", "size"),
    [
        (in_pieces(), len(WHOLE) - 1),
        (in_pieces(), len(WHOLE) + 1),
        ([ExportReadReply(data=b"", eof=False)], 5),
        ([ExportReadReply(data=b"", eof=True)], 5),
    ],
    ids=["longer", "shorter", "stalls", "empty"],
)
async def test_a_snapshot_that_is_not_what_was_offered_is_given_up_and_closed(
    tmp_path: Path, replies: list[ExportReadReply], size: int
) -> None:
    exporter = Exporter(list(replies))
    with pytest.raises(RemoteProtocolViolation):
        await collected(exporter, offer(size=size), tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
    assert exporter.closed == ["t1"]


async def test_a_failure_in_the_middle_leaves_nothing_and_closes(tmp_path: Path) -> None:
    exporter = Exporter(in_pieces()[:1])
    with pytest.raises(WorkerFailure):
        await collected(exporter, offer(), tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
    assert exporter.closed == ["t1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../a"},
        {"name": ".."},
        {"name": ""},
        {"name": "a\0b"},
        {"execution_export": ""},
        {"size": -1},
        {"size": 256 * 1024 * 1024 + 1},
        {"size": "5"},
    ],
)
async def test_a_malformed_offer_never_reaches_the_disk(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(RemoteProtocolViolation):
        await collected(Exporter([]), offer(**changes), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


async def test_a_copy_that_cannot_be_kept_is_told_and_closed(tmp_path: Path) -> None:
    exporter = Exporter(in_pieces())
    (tmp_path / "kept").write_text("a file stands in the way")
    with pytest.raises(ConfigError, match=r"a\.txt cannot be kept"):
        await collected(exporter, offer(), tmp_path / "kept")
    assert exporter.closed == ["t1"]


async def test_an_empty_file_is_an_artifact_too(tmp_path: Path) -> None:
    exporter = Exporter([ExportReadReply(data=b"", eof=True)])
    artifact = artifact_of(await collected(exporter, offer(size=0), tmp_path / "kept"))
    assert (artifact.path.read_bytes(), artifact.size_bytes) == (b"", 0)
