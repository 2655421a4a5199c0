"""The log of one managed process: a private file that only grows, until its head is cut off.

Offsets are logical: they count every byte that was ever logged, whatever is still kept.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from hashlib import sha256
from threading import Lock, Thread
from typing import TYPE_CHECKING

from anyio.lowlevel import cancel_shielded_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_COPY_BYTES = 1024 * 1024
_HASH_BYTES = 256 * 1024
_STAGE_BYTES = 64 * 1024
"""More than a terminal gives at a time, and what an ordinary pipe holds."""


class OutputLog:
    """Bytes by logical offset, in a file that may be closed between its uses."""

    def __init__(self, folder: int, process_id: str, *, base: int = 0) -> None:
        """Use the file of this process; nothing is opened yet.

        ``folder`` is the open folder of logs, ``base`` the logical offset of the first kept byte.
        """
        self.base = base
        self.size = 0
        self.lost_bytes = 0
        self.problem = ""
        self._folder = folder
        self._process_id = process_id
        self._name = f"{process_id}.log"
        self._fd = -1
        self._stage: tuple[int, int] | None = None
        # A flood is written from a thread, and two pipes may end in one log.
        self._writing = Lock()

    @property
    def total(self) -> int:
        """Return the logical offset behind the last byte."""
        return self.base + self.size

    @property
    def fd(self) -> int:
        """Return the open file, positioned at its end; below zero when it is closed."""
        return self._fd

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the open file and what holds bytes that are on their way into it."""
        return (self._fd,) if self._stage is None else (self._fd, self._stage[0])

    def create(self) -> None:
        """Make the file.

        Raises:
            OSError: it cannot be made, or is there already.
        """
        self._fd = os.open(self._name, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._folder)

    def find(self) -> None:
        """Take up a file that an earlier worker made; one that is missing counts as empty."""
        fd = self._open()
        if fd >= 0:
            try:
                self.size = os.fstat(fd).st_size
            finally:
                os.close(fd)

    def _open(self) -> int:
        try:
            fd = os.open(self._name, _FLAGS, dir_fd=self._folder)
        except OSError:
            return -1
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return -1

    # Writing.

    def append(self, data: bytes) -> None:
        """Write bytes at the end; what the disk does not take is counted as lost."""
        rest = memoryview(data)
        try:
            with self._writing:
                while rest:
                    written = os.write(self._fd, rest)
                    self.size += written
                    rest = rest[written:]
        except OSError as error:
            self._lose(len(rest), error)

    def take(self, pipe: int, most: int) -> int:
        """Move what lies in a pipe to the end; return how much was taken, 0 at the pipe's end.

        Raises:
            BlockingIOError: nothing lies in it.
        """
        if not self.problem:
            try:
                with self._writing:
                    moved = os.splice(pipe, self._fd, most)
                    self.size += moved
            except BlockingIOError:
                raise
            except OSError:
                pass  # Not a pipe, or the disk takes no more: then by way of this process.
            else:
                return moved
        return self.copy(pipe, most)

    def stage(self) -> None:
        """Have what comes from a terminal go by a pipe, which can be emptied by another process.

        So nothing of it is ever in the memory of this process alone, whose death would lose it.

        Raises:
            OSError: there is no pipe to be had.
        """
        if self._stage is None:
            self._stage = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def take_terminal(self, terminal: int, most: int) -> int:
        """Do what ``take`` does for a terminal.

        Raises:
            BlockingIOError: there is nothing to be taken.
            OSError: EIO, when nobody holds the other side of the terminal any more.
        """
        if self._stage is None:
            return self.copy(terminal, most)
        source, sink = self._stage
        try:
            staged = os.splice(terminal, sink, min(most, _STAGE_BYTES))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self.copy(terminal, most)  # A kernel that cannot do so with a terminal.
        left = staged
        while left:
            left -= self.take(source, left)
        return staged

    def copy(self, source: int, most: int) -> int:
        """Do what ``take`` does for a source that is no pipe."""
        data = os.read(source, most)
        self.append(data)
        return len(data)

    def _lose(self, number: int, error: OSError) -> None:
        self.lost_bytes += number
        self.problem = error.strerror or str(error)

    # Reading.

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes between two logical offsets, as far as they are kept."""
        start = max(start, self.base)
        if start >= end:
            return b""
        fd = self._fd if self._fd >= 0 else self._open()
        if fd < 0:
            return b""
        try:
            return os.pread(fd, end - start, start - self.base)
        finally:
            if fd != self._fd:
                os.close(fd)

    def look(self) -> None:
        """See how far the file has grown, where another process writes it."""
        if self._fd < 0:
            self.find()

    async def digest(self) -> str:
        """Return the SHA-256 of what is kept, in turns that leave others theirs."""
        hashed = sha256()
        for at in range(self.base, self.total, _HASH_BYTES):
            hashed.update(self.read(at, min(at + _HASH_BYTES, self.total)))
            await cancel_shielded_checkpoint()
        return hashed.hexdigest()

    # Cutting.

    def cut(self, keep: int, note_base: Callable[[int], None]) -> None:
        """Drop all but the last bytes; ``note_base`` records the new base in between.

        The tail stands complete under a name with its base before the base is noted, and takes the
        log's name afterwards: so whenever this is interrupted, ``recover`` knows which one counts.

        Raises:
            OSError: there is no room for the tail; nothing has changed.
        """
        with self._writing:
            if self.size > keep:
                self._cut(keep, note_base)

    def _cut(self, keep: int, note_base: Callable[[int], None]) -> None:
        base = self.total - keep
        name = f"{self._process_id}.{base}.tail"
        flags = _FLAGS | os.O_CREAT | os.O_TRUNC
        tail = os.open(name, flags, 0o600, dir_fd=self._folder)
        try:
            for at in range(base, self.total, _COPY_BYTES):
                _write_all(tail, self.read(at, min(at + _COPY_BYTES, self.total)))
            note_base(base)
            os.rename(name, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            os.close(tail)
            os.unlink(name, dir_fd=self._folder)
            raise
        if self._fd >= 0:
            # The last close of a large file frees all that is in memory of it: up to 100 ms.
            Thread(target=os.close, args=(self._fd,), name="close-log").start()
            self._fd = tail
        else:
            os.close(tail)
        self.base, self.size = base, keep

    def close(self) -> None:
        """Close the file; it can still be read."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        stage, self._stage = self._stage, None
        for end in stage or ():
            os.close(end)

    def remove(self) -> None:
        """Close and remove the file."""
        self.close()
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._folder)


def recover_tails(folder: int, bases: dict[str, int]) -> None:
    """Finish or undo every cut that was interrupted; ``bases`` are those of the records."""
    for name in os.listdir(folder):
        process_id, _, rest = name.partition(".")
        base, _, suffix = rest.partition(".")
        if suffix != "tail":
            continue
        if base.isdigit() and bases.get(process_id) == int(base):
            os.rename(name, f"{process_id}.log", src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
