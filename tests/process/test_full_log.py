from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from moorage.process import full_log
from moorage.process.capture import CaptureLimits, StreamCapture
from moorage.process.full_log import FullLog, LogLimits, SavedLog
from moorage.workspace.redact import Redactor

LIMITS = CaptureLimits(whole_bytes=64, unmasked_bytes=64, head_bytes=16, tail_bytes=32)


class Streams:
    """A log with the two captures that fill it."""

    def __init__(self, folder: Path, limits: LogLimits | None = None) -> None:
        self.folder = folder
        self.log = FullLog(str(folder), lambda: "name", lambda: b"header\n", limits or LogLimits())
        self.stdout = StreamCapture(Redactor(), LIMITS, self.log.spill_stdout)
        self.stderr = StreamCapture(Redactor(), LIMITS, self.log.spill_stderr)

    async def close(self) -> SavedLog | None:
        self.stdout.finish()
        self.stderr.finish()
        return await self.log.close(self.stdout, self.stderr, "exit code: 0\n")

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []


@pytest.fixture
def streams(tmp_path: Path) -> Streams:
    return Streams(tmp_path / "logs")


def check(saved: SavedLog | None, stdout: bytes, stderr: bytes) -> bytes:
    """Assert that the sections cut out exactly the streams, and that size and hash fit."""
    assert saved is not None
    content = Path(saved.path).read_bytes()
    sections = saved.sections
    assert content[sections["stdout_start"] : sections["stdout_end"]] == stdout
    assert content[sections["stderr_start"] : sections["stderr_end"]] == stderr
    assert saved.size == len(content)
    assert saved.sha256 == hashlib.sha256(content).hexdigest()
    return content


@pytest.mark.parametrize(("out", "err"), [(1, 1), (1, 20), (20, 1), (20, 30), (0, 0), (0, 40)])
async def test_sections_and_hash_are_right_whichever_stream_is_long(
    streams: Streams, out: int, err: int
) -> None:
    for number in range(max(out, err)):
        if number < out:
            streams.stdout.feed(b"output line\n")
        if number < err:
            streams.stderr.feed(b"error line\377\n")
    saved = await streams.close()
    content = check(saved, b"output line\n" * out, b"error line\377\n" * err)
    assert content.startswith(b"header\n--- stdout ---\n")
    assert content.endswith(b"\n--- end ---\nexit code: 0\n")


async def test_nothing_is_created_before_something_is_spilt(streams: Streams) -> None:
    streams.stdout.feed(b"short\n")
    assert not streams.folder.exists()
    assert not streams.log.is_begun
    streams.stdout.feed(b"long\n" * 20)
    assert streams.log.is_begun


async def test_the_log_and_its_folder_are_private(streams: Streams) -> None:
    saved = await streams.close()
    assert saved is not None
    assert os.stat(saved.path).st_mode & 0o777 == 0o600
    assert os.stat(streams.folder).st_mode & 0o777 == 0o700


async def test_secrets_are_masked_before_they_are_written(streams: Streams) -> None:
    streams.stdout.feed(b"password=hunter2\n" * 10)
    check(await streams.close(), b"password=[REDACTED]\n" * 10, b"")


async def test_logs_of_one_moment_get_names_of_their_own(tmp_path: Path) -> None:
    first, second = Streams(tmp_path), Streams(tmp_path)
    await first.close()
    await second.close()
    assert first.files() == ["name-1.log", "name.log"]


async def test_when_every_name_is_taken_there_is_no_log(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_log, "_ATTEMPTS", 1)
    streams.folder.mkdir()
    (streams.folder / "name.log").touch()
    assert await streams.close() is None
    assert "every name for it is taken" in streams.log.error


async def test_a_symlink_in_the_way_is_not_followed(streams: Streams, tmp_path: Path) -> None:
    streams.folder.mkdir()
    (streams.folder / "name.log").symlink_to(tmp_path / "elsewhere")
    saved = await streams.close()
    assert saved is not None
    assert saved.path.endswith("name-1.log")
    assert not (tmp_path / "elsewhere").exists()


async def test_discarding_leaves_nothing_behind(streams: Streams) -> None:
    streams.stdout.feed(b"line\n" * 100)
    streams.stderr.feed(b"line\n" * 100)
    streams.log.discard()
    assert streams.files() == []


async def test_a_log_that_reaches_its_bound_says_what_it_lacks(tmp_path: Path) -> None:
    streams = Streams(tmp_path, LogLimits(stream_bytes=100))
    streams.stdout.feed(b"x" * 90)
    streams.stdout.feed(b"y" * 30)
    streams.stderr.feed(b"z" * 300)
    saved = await streams.close()
    content = check(saved, b"x" * 90 + b"y" * 10, b"z" * 100)
    assert saved is not None
    assert saved.omitted_bytes == 220
    assert content.endswith(b"not kept: 220 bytes\n")
    assert streams.stdout.total_bytes == 120


async def test_a_folder_that_cannot_be_made_is_a_reason_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    streams = Streams(tmp_path / "file" / "logs")
    streams.stderr.feed(b"line\n" * 100)
    streams.stdout.feed(b"line\n" * 100)
    assert await streams.close() is None
    assert streams.log.error == "the full log could not be written: Not a directory"
    assert streams.stdout.total_bytes == 500


@pytest.mark.parametrize("when", ["spilling stdout", "spilling stderr", "closing"])
async def test_a_full_disk_gives_up_the_log_and_leaves_nothing_half_written(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    streams.stdout.feed(b"line\n" * 20 if when != "closing" else b"line\n")

    def full(fd: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(full_log, "_write_all", full)
    if when == "spilling stdout":
        streams.stdout.feed(b"line\n" * 20)
        streams.stdout.feed(b"line\n" * 20)
    elif when == "spilling stderr":
        streams.stderr.feed(b"line\n" * 20)
        streams.stderr.feed(b"line\n" * 20)
    assert await streams.close() is None
    assert streams.log.error == "the full log could not be written: No space left on device"
    assert streams.files() == []


async def test_a_file_system_without_unnamed_files_serves_too(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    streams.stderr.feed(b"line\n" * 100)
    check(await streams.close(), b"", b"line\n" * 100)
    assert streams.files() == ["name.log"]
