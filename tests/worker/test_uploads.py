from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.errors import InvalidArguments, Refused, ToolFailed
from moorage.policy.permission import PermissionMode
from moorage.protocol.files import (
    FileReadRequest,
    FileWriteReply,
    FileWriteRequest,
    InputWriteRequest,
)
from moorage.worker import nameless
from moorage.worker.readings import ReadingLimits
from moorage.worker.uploads import UploadLimits, Uploads
from moorage.workspace import staged
from moorage.workspace.root import WorkspaceRoot

STANDARD = PermissionMode.STANDARD


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Dock:
    """Uploads over a workspace, and the steps that a host takes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workspace"
        self.outside = folder / "outside"
        self.inputs = folder / "inputs"
        for made in (self.path, self.outside, self.inputs):
            made.mkdir()
        self.clock = Clock()
        self.root = WorkspaceRoot.open(self.path)
        self.uploads = self.make()

    def make(
        self, limits: UploadLimits | None = None, reading_limits: ReadingLimits | None = None
    ) -> Uploads:
        return Uploads(
            self.root, self.inputs, limits=limits, reading_limits=reading_limits, clock=self.clock
        )

    async def piece(
        self, path: str, data: bytes, *, mode: PermissionMode = STANDARD, **more: Any
    ) -> FileWriteReply:
        fields = {"actor": "actor", "eof": False, **more}
        return await self.uploads.file_write(FileWriteRequest(path=path, data=data, **fields), mode)

    async def read(self, path: str, offset: int = 0, count: int = 4, mode=STANDARD):
        request = FileReadRequest(path=path, actor="actor", offset=offset, max_bytes=count)
        return await self.uploads.file_read(request, mode)

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*"))


@pytest.fixture
def dock(tmp_path: Path) -> Iterator[Dock]:
    dock = Dock(tmp_path)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    yield dock
    dock.uploads.close()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before, "a descriptor was left open"
    dock.root.close()


async def test_a_file_of_one_piece_is_written_at_once(dock: Dock) -> None:
    reply = await dock.piece("new/a.bin", b"\x00\xff", eof=True)
    assert reply.written == 2
    assert (dock.path / "new/a.bin").read_bytes() == b"\x00\xff"
    assert dock.files() == ["new", "new/a.bin"]


async def test_a_file_of_many_pieces_changes_with_the_last_one(dock: Dock) -> None:
    (dock.path / "a.bin").write_bytes(b"old")
    (dock.path / "a.bin").chmod(0o640)
    first = await dock.piece("a.bin", b"one")
    assert (dock.path / "a.bin").read_bytes() == b"old"
    second = await dock.piece("a.bin", b"two", upload=first.upload, offset=3)
    assert second.upload == first.upload
    assert dock.files() == ["a.bin"]
    last = await dock.piece("a.bin", b"", upload=first.upload, offset=6, eof=True)
    assert last.written == 6
    assert (dock.path / "a.bin").read_bytes() == b"onetwo"
    assert (dock.path / "a.bin").stat().st_mode & 0o777 == 0o640
    assert dock.files() == ["a.bin"]


async def test_an_upload_into_a_new_folder_makes_it_only_at_the_end(dock: Dock) -> None:
    first = await dock.piece("x/y/a.bin", b"one")
    assert dock.files() == []
    await dock.piece("x/y/a.bin", b"!", upload=first.upload, offset=3, eof=True)
    assert (dock.path / "x/y/a.bin").read_bytes() == b"one!"


async def test_an_abandoned_upload_leaves_nothing(dock: Dock) -> None:
    await dock.piece("x/a.bin", b"one")
    dock.uploads.close()
    assert dock.files() == []


async def test_without_nameless_files_an_abandoned_upload_leaves_nothing_either(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "_O_TMPFILE", 0)
    (dock.path / "b.bin").write_bytes(b"old")
    await dock.piece("x/a.bin", b"one")
    await dock.piece("b.bin", b"one")
    dock.uploads.close()
    assert dock.files() == ["b.bin"]
    assert (dock.path / "b.bin").read_bytes() == b"old"


async def test_a_disk_without_nameless_files_is_served_with_named_ones(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def refuse(path, flags, *rest, **more):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuse)
    first = await dock.piece("a.bin", b"one")
    await dock.piece("a.bin", b"two", upload=first.upload, offset=3, eof=True)
    assert (dock.path / "a.bin").read_bytes() == b"onetwo"
    fd = nameless.open_nameless(dock.inputs)
    os.close(fd)
    assert list(dock.inputs.iterdir()) == []
    assert dock.files() == ["a.bin"]


async def test_a_file_that_appears_during_an_upload_is_replaced_as_a_whole(dock: Dock) -> None:
    first = await dock.piece("a.bin", b"one")
    (dock.path / "a.bin").write_bytes(b"meanwhile")
    await dock.piece("a.bin", b"!", upload=first.upload, offset=3, eof=True)
    assert (dock.path / "a.bin").read_bytes() == b"one!"


async def test_a_piece_out_of_order_drops_the_upload(dock: Dock) -> None:
    first = await dock.piece("a.bin", b"one")
    with pytest.raises(InvalidArguments, match="begins at 5, and 3 bytes have arrived"):
        await dock.piece("a.bin", b"x", upload=first.upload, offset=5)
    with pytest.raises(InvalidArguments, match="no upload has this token"):
        await dock.piece("a.bin", b"x", upload=first.upload, offset=3)
    with pytest.raises(InvalidArguments):
        await dock.piece("a.bin", b"x", offset=3)
    assert dock.files() == []


async def test_a_token_serves_its_own_file_and_actor_only(dock: Dock) -> None:
    for changed in ({"path": "b.bin"}, {"actor": "other"}):
        first = await dock.piece("a.bin", b"one")
        arguments = {"path": "a.bin", "upload": first.upload, "offset": 3, **changed}
        with pytest.raises(InvalidArguments, match="another file or actor"):
            await dock.piece(data=b"x", **arguments)
    assert dock.files() == []


@pytest.mark.parametrize(
    ("path", "mode", "reason"),
    [
        ("../outside/a.bin", STANDARD, "boundary_denied"),
        ("a.bin", PermissionMode.READ_ONLY, "boundary_denied"),
        (".env", STANDARD, "protected_path"),
        (".env", PermissionMode.UNCONFINED, "protected_path"),
    ],
)
async def test_boundaries_hold_for_bytes(
    dock: Dock, path: str, mode: PermissionMode, reason: str
) -> None:
    for eof in (False, True):
        with pytest.raises(Refused) as caught:
            await dock.piece(path, b"x", eof=eof, mode=mode)
        assert caught.value.reason == reason
    assert dock.files() == []
    assert list(dock.outside.iterdir()) == []


async def test_a_folder_is_no_file_to_write(dock: Dock) -> None:
    (dock.path / "folder").mkdir()
    for eof in (False, True):
        with pytest.raises(ToolFailed, match="is a folder"):
            await dock.piece("folder", b"x", eof=eof)


async def test_a_failing_disk_drops_the_upload_and_says_so(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await dock.piece("a.bin", b"one")

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(ToolFailed, match=r"The disk is full; a\.bin was left as it was"):
            await dock.piece("a.bin", b"x", upload=first.upload, offset=3)
        with pytest.raises(ToolFailed, match="The disk is full"):
            await dock.uploads.input_write(InputWriteRequest(data=b"x", eof=True))
    with pytest.raises(InvalidArguments):
        await dock.piece("a.bin", b"x", upload=first.upload, offset=3)
    assert dock.files() == []


async def test_uploads_are_bounded_in_number_and_bytes(dock: Dock) -> None:
    dock.uploads = dock.make(UploadLimits(max_uploads=2, max_total_bytes=10))
    await dock.piece("a.bin", b"12345")
    second = await dock.piece("b.bin", b"1234")
    with pytest.raises(Refused) as caught:
        await dock.piece("c.bin", b"")
    assert caught.value.reason == "upload_quota"
    with pytest.raises(Refused) as caught:
        await dock.piece("b.bin", b"12", upload=second.upload, offset=4)
    assert caught.value.reason == "upload_quota"
    await dock.piece("c.bin", b"12345", eof=True)
    with pytest.raises(Refused):
        await dock.uploads.input_write(InputWriteRequest(data=b"123456", eof=True))


async def test_uploads_that_rest_too_long_are_dropped(dock: Dock) -> None:
    dock.uploads = dock.make(UploadLimits(idle_seconds=10))
    first = await dock.piece("a.bin", b"one")
    given = await dock.uploads.input_write(InputWriteRequest(data=b"x", eof=True))
    dock.clock.now = 11
    await dock.piece("b.bin", b"one")
    with pytest.raises(InvalidArguments):
        await dock.piece("a.bin", b"x", upload=first.upload, offset=3)
    with pytest.raises(InvalidArguments):
        dock.uploads.take_input(given.upload)


async def test_input_arrives_in_pieces_and_is_taken_once(dock: Dock) -> None:
    first = await dock.uploads.input_write(InputWriteRequest(data=b"one", eof=False))
    last = await dock.uploads.input_write(
        InputWriteRequest(data=b"two", eof=True, upload=first.upload, offset=3)
    )
    assert last.written == 6
    fd = dock.uploads.take_input(first.upload)
    try:
        assert os.read(fd, 100) == b"onetwo"
    finally:
        os.close(fd)
    with pytest.raises(InvalidArguments):
        dock.uploads.take_input(first.upload)
    assert list(dock.inputs.iterdir()) == []


async def test_incomplete_or_completed_input_takes_no_wrong_turn(dock: Dock) -> None:
    first = await dock.uploads.input_write(InputWriteRequest(data=b"one", eof=False))
    with pytest.raises(InvalidArguments, match="not sent to its end"):
        dock.uploads.take_input(first.upload)
    whole = await dock.uploads.input_write(InputWriteRequest(data=b"one", eof=True))
    more = InputWriteRequest(data=b"x", eof=True, upload=whole.upload, offset=3)
    with pytest.raises(InvalidArguments, match="no upload has this token"):
        await dock.uploads.input_write(more)
    os.close(dock.uploads.take_input(whole.upload))
    with pytest.raises(InvalidArguments):
        await dock.uploads.input_write(InputWriteRequest(data=b"x", eof=True, upload="made up"))


async def test_a_file_is_read_in_pieces(dock: Dock) -> None:
    (dock.path / "a.bin").write_bytes(b"0123456789")
    pieces = [await dock.read("a.bin", offset) for offset in (0, 4, 8)]
    assert b"".join(piece.data for piece in pieces) == b"0123456789"
    assert [piece.eof for piece in pieces] == [False, False, True]
    assert {piece.size for piece in pieces} == {10}


async def test_an_empty_file_is_one_empty_piece(dock: Dock) -> None:
    (dock.path / "a.bin").touch()
    piece = await dock.read("a.bin")
    assert (piece.data, piece.eof, piece.size) == (b"", True, 0)


async def test_pieces_come_from_the_file_that_the_first_one_found(dock: Dock) -> None:
    (dock.path / "a.bin").write_bytes(b"01234567")
    first = await dock.read("a.bin")
    (dock.path / "b.bin").write_bytes(b"ABCDEFGH")
    (dock.path / "b.bin").rename(dock.path / "a.bin")
    second = await dock.read("a.bin", 4)
    assert first.data + second.data == b"01234567"
    again = await dock.read("a.bin", 0, 100)
    assert again.data == b"ABCDEFGH"


async def test_a_file_written_to_between_two_pieces_is_an_error(dock: Dock) -> None:
    (dock.path / "a.bin").write_bytes(b"01234567")
    await dock.read("a.bin")
    (dock.path / "a.bin").write_bytes(b"short")
    with pytest.raises(ToolFailed, match="changed by someone else"):
        await dock.read("a.bin", 4)


async def test_a_piece_in_the_middle_needs_no_first_one(dock: Dock) -> None:
    (dock.path / "a.bin").write_bytes(b"01234567")
    assert (await dock.read("a.bin", 6)).data == b"67"
    assert (await dock.read("a.bin", 60)).eof


async def test_bytes_of_protected_and_foreign_files_stay_unread(dock: Dock) -> None:
    (dock.path / ".env").write_text("A=1")
    (dock.outside / "a.bin").write_text("x")
    for path, mode in (
        (".env", STANDARD),
        (".env", PermissionMode.UNCONFINED),
        ("../outside/a.bin", STANDARD),
    ):
        with pytest.raises(Refused):
            await dock.read(path, mode=mode)


async def test_missing_files_and_folders_are_told(dock: Dock) -> None:
    with pytest.raises(ToolFailed, match=r"a\.bin does not exist"):
        await dock.read("a.bin")
    with pytest.raises(ToolFailed, match="is a folder"):
        await dock.read(".")


async def test_open_readings_are_bounded_in_number_and_age(dock: Dock) -> None:
    dock.uploads = dock.make(reading_limits=ReadingLimits(max_readings=2, idle_seconds=10))
    for name in ("a", "b", "c"):
        (dock.path / name).write_bytes(b"01234567")
        await dock.read(name)
    readings = dock.uploads._readings
    assert [key[0] for key in readings._open] == ["b", "c"]
    dock.clock.now = 11
    await dock.read("a")
    assert [key[0] for key in readings._open] == ["a"]


async def test_ten_megabytes_go_there_and_back(dock: Dock) -> None:
    data = os.urandom(1024 * 1024) * 10
    upload, step = "", 1024 * 1024
    for offset in range(0, len(data), step):
        part = data[offset : offset + step]
        is_last = offset + step >= len(data)
        reply = await dock.piece("a.bin", part, upload=upload, offset=offset, eof=is_last)
        upload = reply.upload
    assert (dock.path / "a.bin").read_bytes() == data
    parts = [await dock.read("a.bin", offset, step) for offset in range(0, len(data), step)]
    assert b"".join(part.data for part in parts) == data
