"""Snapshots: immutable, bounded, readable at random, gone when given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from moorage.errors import InvalidArguments, Refused, ToolFailed
from moorage.protocol.exports import MAX_EXPORT_BYTES, ExportCloseRequest, ExportReadRequest
from moorage.worker import exports as exports_module
from moorage.worker.exports import Export, ExportLimits, Exports

TINY = ExportLimits(
    max_bytes=100, max_total_bytes=150, max_count=3, idle_seconds=10, chunk_bytes=7, copy_bytes=5
)

UNKNOWN = "no-such-token"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def opened(path: Path, content: bytes | None = None) -> Iterator[int]:
    if content is not None:
        path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.fixture
def exports(tmp_path: Path) -> Iterator[Exports]:
    kept = Exports(tmp_path / "state" / "exports", limits=TINY, clock=Clock())
    yield kept
    kept.close_all()


async def download(exports: Exports, export: Export) -> bytes:
    data = b""
    while True:
        reply = await exports.read(ExportReadRequest(token=export.token, offset=len(data)))
        data += reply.data
        if reply.eof:
            return data
        assert reply.data


async def publish(exports: Exports, path: Path, content: bytes) -> Export:
    with opened(path, content) as fd:
        return await exports.publish(fd, path.name)


async def test_a_file_of_the_full_size_comes_home_byte_for_byte_in_small_pieces(
    exports: Exports, tmp_path: Path
) -> None:
    content = bytes(range(100))
    export = await publish(exports, tmp_path / "a.bin", content)
    assert (export.name, export.size) == ("a.bin", 100)
    assert await download(exports, export) == content


async def test_the_limit_of_the_wire_is_the_default() -> None:
    assert ExportLimits().max_bytes == MAX_EXPORT_BYTES == 268_435_456
    assert ExportLimits().chunk_bytes == 256 * 1024


async def test_one_byte_above_the_limit_is_refused(exports: Exports, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="101 bytes") as caught:
        await publish(exports, tmp_path / "a.bin", bytes(101))
    assert caught.value.reason == "artifact_too_large"


async def test_a_file_of_exactly_256_mib_is_published_whole(tmp_path: Path) -> None:
    exports = Exports(tmp_path / "exports")
    marks = {0: b"begin", MAX_EXPORT_BYTES // 2: b"middle", MAX_EXPORT_BYTES - 3: b"end"}
    with (tmp_path / "big").open("wb") as big:
        for offset, mark in marks.items():
            big.seek(offset)
            big.write(mark)
    with opened(tmp_path / "big") as fd:
        export = await exports.publish(fd, "big")
    assert export.size == MAX_EXPORT_BYTES
    for offset, mark in marks.items():
        reply = await exports.read(ExportReadRequest(token=export.token, offset=offset))
        assert reply.data.startswith(mark)
        assert reply.eof == (offset + 3 == MAX_EXPORT_BYTES)
    exports.close_all()


async def test_a_sparse_file_above_256_mib_is_refused_before_anything_is_copied(
    tmp_path: Path,
) -> None:
    exports = Exports(tmp_path / "exports")
    (tmp_path / "big").touch()
    os.truncate(tmp_path / "big", MAX_EXPORT_BYTES + 1)
    with opened(tmp_path / "big") as fd, pytest.raises(Refused):
        await exports.publish(fd, "big")
    assert not (tmp_path / "exports").exists()


async def test_changing_the_source_afterwards_changes_nothing(
    exports: Exports, tmp_path: Path
) -> None:
    source = tmp_path / "a"
    export = await publish(exports, source, b"first")
    source.write_bytes(b"other")
    source.unlink()
    assert await download(exports, export) == b"first"


async def test_an_empty_file_answers_with_the_end_at_offset_zero(
    exports: Exports, tmp_path: Path
) -> None:
    export = await publish(exports, tmp_path / "empty", b"")
    reply = await exports.read(ExportReadRequest(token=export.token, offset=0))
    assert (reply.data, reply.eof) == (b"", True)


async def test_reads_are_repeatable_and_in_any_order(exports: Exports, tmp_path: Path) -> None:
    export = await publish(exports, tmp_path / "a", b"0123456789")
    for offset, expected, eof in ((5, b"56789", True), (0, b"0123456", False), (10, b"", True)):
        for _ in range(2):
            reply = await exports.read(ExportReadRequest(token=export.token, offset=offset))
            assert (reply.data, reply.eof) == (expected, eof)


@pytest.mark.parametrize("offset", [-1, 11])
async def test_an_offset_outside_the_snapshot_is_an_error(
    exports: Exports, tmp_path: Path, offset: int
) -> None:
    export = await publish(exports, tmp_path / "a", b"0123456789")
    with pytest.raises(InvalidArguments, match="outside the export"):
        await exports.read(ExportReadRequest(token=export.token, offset=offset))


async def test_an_unknown_token_is_an_error(exports: Exports) -> None:
    with pytest.raises(InvalidArguments, match="no export"):
        await exports.read(ExportReadRequest(token=UNKNOWN, offset=0))
    with pytest.raises(InvalidArguments, match="no export"):
        await exports.close(ExportCloseRequest(token=UNKNOWN))


async def test_closing_twice_is_an_error_the_second_time(exports: Exports, tmp_path: Path) -> None:
    export = await publish(exports, tmp_path / "a", b"a")
    await exports.close(ExportCloseRequest(token=export.token))
    with pytest.raises(InvalidArguments):
        await exports.close(ExportCloseRequest(token=export.token))


async def test_too_many_exports_are_refused_until_one_is_closed(
    exports: Exports, tmp_path: Path
) -> None:
    kept = [await publish(exports, tmp_path / "a", b"a") for _ in range(3)]
    with pytest.raises(Refused, match="3 exports") as caught:
        await publish(exports, tmp_path / "a", b"a")
    assert caught.value.reason == "export_quota"
    await exports.close(ExportCloseRequest(token=kept[0].token))
    await publish(exports, tmp_path / "a", b"a")


async def test_exports_that_are_too_large_together_are_refused(
    exports: Exports, tmp_path: Path
) -> None:
    await publish(exports, tmp_path / "a", bytes(100))
    with pytest.raises(Refused, match="100 bytes are still open"):
        await publish(exports, tmp_path / "b", bytes(51))
    await publish(exports, tmp_path / "c", bytes(50))


async def test_copies_that_run_side_by_side_keep_to_the_quota(
    exports: Exports, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    outcomes: list[str] = []

    async def one() -> None:
        with opened(tmp_path / "a") as fd:
            try:
                await exports.publish(fd, "a")
                outcomes.append("published")
            except Refused:
                outcomes.append("refused")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            tasks.start_soon(one)
    assert sorted(outcomes) == ["published", "refused"]


async def test_an_export_that_nobody_uses_expires_and_one_in_use_does_not(tmp_path: Path) -> None:
    clock = Clock()
    exports = Exports(tmp_path, limits=TINY, clock=clock)
    forgotten = await publish(exports, tmp_path / "a", b"a")
    used = await publish(exports, tmp_path / "b", b"b")
    clock.now += 9
    await exports.read(ExportReadRequest(token=used.token, offset=0))
    clock.now += 9
    assert await download(exports, used) == b"b"
    with pytest.raises(InvalidArguments, match="expired"):
        await exports.read(ExportReadRequest(token=forgotten.token, offset=0))
    exports.close_all()


async def test_a_file_that_grows_while_it_is_copied_is_not_published(
    exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a"
    real_write = os.write

    def write(fd: int, data: memoryview) -> int:
        with source.open("ab") as more:
            more.write(b"!")
        return real_write(fd, data)

    source.write_bytes(b"0123456789")
    with opened(source) as fd:
        monkeypatch.setattr(exports_module.os, "write", write)
        with pytest.raises(ToolFailed, match="changed while it was copied"):
            await exports.publish(fd, "a")
    monkeypatch.undo()
    assert (await publish(exports, source, b"now")).size == 3


async def test_a_change_that_keeps_the_size_is_noticed_too(
    exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a"
    source.write_bytes(b"0123456789")
    os.utime(source, ns=(1, 1))
    real_write = os.write

    def write(fd: int, data: memoryview) -> int:
        with source.open("r+b") as other:
            other.write(b"X")
        return real_write(fd, data)

    monkeypatch.setattr(exports_module.os, "write", write)
    with opened(source) as fd, pytest.raises(ToolFailed):
        await exports.publish(fd, "a")


async def test_a_full_disk_is_one_clear_sentence_and_leaves_nothing(
    exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(fd: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"a")
    monkeypatch.setattr(exports_module.os, "write", write)
    with opened(tmp_path / "a") as fd, pytest.raises(ToolFailed, match=r"No space left.*Free some"):
        await exports.publish(fd, "a")
    assert os.listdir(tmp_path / "state" / "exports") == []


async def test_a_snapshot_has_no_name_on_disk(exports: Exports, tmp_path: Path) -> None:
    export = await publish(exports, tmp_path / "a", b"secret")
    assert os.listdir(tmp_path / "state" / "exports") == []
    assert await download(exports, export) == b"secret"


async def test_a_disk_without_nameless_files_takes_snapshots_too(
    exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def open_named(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return real_open(path, flags, *rest, **more)

    (tmp_path / "a").write_bytes(b"named")
    with opened(tmp_path / "a") as fd:
        monkeypatch.setattr(exports_module.os, "open", open_named)
        export = await exports.publish(fd, "a")
    assert os.listdir(tmp_path / "state" / "exports") == []
    assert await download(exports, export) == b"named"


async def test_a_folder_is_no_artifact(exports: Exports, tmp_path: Path) -> None:
    with opened(tmp_path) as fd, pytest.raises(Refused, match="no regular file"):
        await exports.publish(fd, "folder")


async def test_after_the_end_nothing_is_left_and_nothing_is_taken(tmp_path: Path) -> None:
    exports = Exports(tmp_path / "e", limits=TINY)
    export = await publish(exports, tmp_path / "a", b"a")
    before = len(os.listdir("/proc/self/fd"))
    exports.close_all()
    assert len(os.listdir("/proc/self/fd")) == before - 1
    with pytest.raises(InvalidArguments):
        await exports.read(ExportReadRequest(token=export.token, offset=0))
    with pytest.raises(Refused, match="ending"):
        await publish(exports, tmp_path / "a", b"a")


async def test_a_cancelled_copy_keeps_neither_descriptor_nor_quota(
    exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    before = len(os.listdir("/proc/self/fd"))
    with opened(tmp_path / "a") as fd, anyio.CancelScope() as scope:
        real_pread = os.pread

        def pread(*arguments: int) -> bytes:
            anyio.from_thread.run_sync(scope.cancel)
            return real_pread(*arguments)

        monkeypatch.setattr(exports_module.os, "pread", pread)
        await exports.publish(fd, "a")
    assert scope.cancelled_caught
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
    await publish(exports, tmp_path / "b", bytes(100))
