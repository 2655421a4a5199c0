"""The records of managed processes on disk: one private file each, replaced as a whole."""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from moorage.confine.private_folders import PRIVATE
from moorage.errors import ConfigError
from moorage.protocol.processes import ProcessRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RECORDS = "processes"
LOGS = "logs"

_SUFFIX = ".json"
_ID = re.compile(r"proc-[0-9a-f]{8}")
_LONGEST_RECORD_BYTES = 4 * 1024 * 1024
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


class BadRecord(Exception):
    """A file in the place of a record that cannot be used; it is left as it is."""


def stamp(nanoseconds: int | None = None) -> str:
    """Return a time as the wire writes it; by default now."""
    seconds, rest = divmod(time.time_ns() if nanoseconds is None else nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z"


class Folders:
    """The two private folders, held open so that nothing can be put in their place."""

    def __init__(self, folder: Path) -> None:
        """Make them where they are missing.

        Raises:
            ConfigError: one cannot be made, or is no real folder of our own.
        """
        self.path = folder
        self.records = _private_folder(folder / RECORDS)
        try:
            self.logs = _private_folder(folder / LOGS)
        except BaseException:
            os.close(self.records)
            raise

    def log_path(self, process_id: str) -> str:
        """Return where the log of a process lies."""
        return str(self.path / LOGS / f"{process_id}.log")

    def close(self) -> None:
        """Let go of the folders."""
        os.close(self.records)
        os.close(self.logs)


def _private_folder(path: Path) -> int:
    try:
        with suppress(FileExistsError):
            os.mkdir(path, PRIVATE)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot keep processes: {error.strerror}.",
            hint="It must be a real folder of the worker's own, and no symlink.",
        ) from error
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        os.close(folder)
        raise ConfigError(f"{path} belongs to another user, so it cannot keep processes.")
    if stat.S_IMODE(found.st_mode) != PRIVATE:
        os.fchmod(folder, PRIVATE)
    return folder


class RecordStore:
    """Reads, writes and removes records."""

    def __init__(self, folders: Folders) -> None:
        """Use these folders."""
        self._folders = folders
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(ProcessRecord)

    def new_id(self) -> str:
        """Return an id that no record has."""
        while True:
            process_id = f"proc-{os.urandom(4).hex()}"
            try:
                os.stat(process_id + _SUFFIX, dir_fd=self._folders.records, follow_symlinks=False)
            except FileNotFoundError:
                return process_id

    def save(self, record: ProcessRecord) -> None:
        """Replace a record as a whole: it survives the end of every process, at once.

        Raises:
            OSError: it cannot be written; the former one stands.
        """
        folder = self._folders.records
        temporary = f".{record.id}.{os.urandom(4).hex()}"
        try:
            with os.fdopen(os.open(temporary, _NEW_FILE, 0o600, dir_fd=folder), "wb") as file:
                file.write(self._encoder.encode(record))
            os.rename(temporary, record.id + _SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def sync(self, ids: Iterable[str]) -> None:
        """Have records that were saved survive the end of the machine, too; may take a while.

        Raises:
            OSError: the disk failed.
        """
        folder = self._folders.records
        for process_id in ids:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with suppress(FileNotFoundError):
                file = os.open(process_id + _SUFFIX, flags, dir_fd=folder)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)
        os.fsync(folder)

    def remove(self, process_id: str) -> None:
        """Remove a record; one that is gone is fine."""
        with suppress(FileNotFoundError):
            os.unlink(process_id + _SUFFIX, dir_fd=self._folders.records)

    def load(self, process_id: str) -> ProcessRecord:
        """Return the record with this id.

        Raises:
            BadRecord: the file cannot be used; the text says why.
        """
        try:
            record = self._decoder.decode(self._read(process_id))
        except OSError as error:
            raise BadRecord(f"it cannot be read ({error.strerror})") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRecord(f"it is no record ({error})") from error
        _check(record, process_id)
        # Where a log lies follows from the id alone; what a record says about it opens nothing.
        return msgspec.structs.replace(record, log_path=self._folders.log_path(process_id))

    def _read(self, process_id: str) -> bytes:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(process_id + _SUFFIX, flags, dir_fd=self._folders.records)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadRecord("it is no ordinary file")
            content = file.read(_LONGEST_RECORD_BYTES + 1)
        if len(content) > _LONGEST_RECORD_BYTES:
            raise BadRecord("it is far too long")
        return content

    def names(self) -> Iterator[str]:
        """Yield the ids that files stand for; what was left half written is removed."""
        for name in sorted(os.listdir(self._folders.records)):
            stem, suffix = os.path.splitext(name)
            if name.startswith(".proc-"):
                with suppress(OSError):
                    os.unlink(name, dir_fd=self._folders.records)
            elif suffix == _SUFFIX:
                yield stem


def _check(record: ProcessRecord, process_id: str) -> None:
    """Return when a record that was read can be what was once written."""
    if not _ID.fullmatch(process_id) or record.id != process_id:
        raise BadRecord(f"its id {record.id!r} is not the name of the file")
    times = (
        record.started_at,
        record.updated_at,
        record.stopped_at,
        record.completion_delivered_at,
    )
    if not all(map(_TIME.fullmatch, times)):
        raise BadRecord("one of its times is none")
    if min(record.log_base_offset, record.total_bytes, record.pid, record.pgid) < 0:
        raise BadRecord("one of its numbers is below zero")
