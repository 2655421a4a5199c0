"""Read the bytes of a regular file, and notice when it changes meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from hashlib import sha256

from moorage.workspace.opening.location import Target, check_regular

# A step of reading long files: large enough to be fast, small enough to be cancelled soon.
_STEP_BYTES = 1024 * 1024
_FIRST_BYTES = 64 * 1024


class ChangedMeanwhile(Exception):
    """The file changed while it was worked on; nothing was done to it."""

    def __init__(self, display: str) -> None:
        """Keep how the file is shown."""
        super().__init__(f"{display} was changed by someone else meanwhile.")
        self.display = display


def open_existing(target: Target) -> int:
    """Open the file that a target found, for reading; the caller closes the descriptor.

    Raises:
        WrongFileType: it is a folder or a special file; nothing was opened.
        ChangedMeanwhile: another file has taken its place.
        FileNotFoundError: there is none.
        OSError: the system refuses.
    """
    display = target.location.display
    if target.status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), display)
    check_regular(target.status.st_mode, display)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(target.name, flags, dir_fd=target.folder_fd)
    if fingerprint(os.fstat(fd)) != fingerprint(target.status):
        os.close(fd)
        raise ChangedMeanwhile(display)
    return fd


def fingerprint(status: os.stat_result) -> tuple[int, ...]:
    """Return what differs as soon as a file is replaced or written to."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def read_whole(fd: int, limit: int, display: str) -> bytes:
    """Return all bytes of a file, read twice so that no torn mixture passes.

    A file longer than ``limit`` gives more than ``limit`` bytes, but not all of them.

    Raises:
        ChangedMeanwhile: the file changed between the two looks.
        OSError: the disk fails.
    """
    data = _read_to_end(fd, limit)
    if _read_to_end(fd, limit) != data:
        raise ChangedMeanwhile(display)
    return data


def steps(fd: int, display: str, *, on_step: Callable[[], object]) -> Iterator[bytes]:
    """Yield the bytes of a long file step by step; ``on_step`` may raise to end it.

    Raises:
        ChangedMeanwhile: the file was written to or cut meanwhile.
        OSError: the disk fails.
    """
    before = os.fstat(fd)
    offset = 0
    while offset < before.st_size:
        on_step()
        step = os.pread(fd, min(_STEP_BYTES, before.st_size - offset), offset)
        if not step:
            break
        offset += len(step)
        yield step
    if fingerprint(os.fstat(fd)) != fingerprint(before):
        raise ChangedMeanwhile(display)


def content_hash(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return sha256(data, usedforsecurity=False).hexdigest()


def prefixed(digest: str) -> str:
    """Return a digest with the name of its algorithm, as results carry it."""
    return f"sha256:{digest}" if digest else ""


def _read_to_end(fd: int, limit: int) -> bytes:
    # Not by the size that the system tells: files of /proc say 0, those of /sys 4096.
    first = os.pread(fd, _FIRST_BYTES, 0)
    if len(first) < _FIRST_BYTES and not os.pread(fd, 1, len(first)):
        return first
    parts = [first]
    total = len(first)
    while total <= limit and (part := os.pread(fd, _STEP_BYTES, total)):
        parts.append(part)
        total += len(part)
    return b"".join(parts)
