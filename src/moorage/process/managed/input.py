"""Input of a managed process, and the size of its terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio

from moorage.errors import InvalidArguments
from moorage.process.child import LARGEST_SIZE, set_size

if TYPE_CHECKING:
    from moorage.process.managed.limits import ManagedLimits
    from moorage.process.managed.live import Live


async def write(live: Live, data: bytes, limits: ManagedLimits) -> int:
    """Write bytes to a process as it takes them; a stop does not wait for this.

    Raises:
        InvalidArguments: it has ended, takes no input, closed it, or ended meanwhile.
    """
    name = live.record.id
    if len(data) > limits.longest_input_bytes:
        raise InvalidArguments(
            f"{name}: input of {len(data)} bytes is more than {limits.longest_input_bytes}; "
            "nothing was written.",
            hint="Write it in parts, or have the command read a file.",
        )
    with anyio.CancelScope() as scope:
        live.writers.add(scope)
        try:
            async with live.writing:
                _check_open(live)
                return await _write_all(live, data)
        finally:
            live.writers.discard(scope)
    raise InvalidArguments(f"{name} ended while input was being written; some of it was not taken.")


def _check_open(live: Live) -> None:
    name = live.record.id
    if live.record.is_terminal or live.is_stop_requested:
        raise InvalidArguments(f"{name} has ended; nothing was written.")
    if live.stdin_fd < 0:
        raise InvalidArguments(
            f"{name} takes no input: it was handed over from the foreground, or an earlier worker "
            "started it. Nothing was written.",
        )


async def _write_all(live: Live, data: bytes) -> int:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(live.stdin_fd, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(live.stdin_fd)
        except anyio.ClosedResourceError:
            await anyio.sleep_forever()  # Whoever closed it has cancelled this, too.
        except OSError as error:
            raise InvalidArguments(
                f"{live.record.id} takes no more input ({error.strerror}); "
                f"{len(data) - len(rest)} of {len(data)} bytes were written."
            ) from error
    return len(data)


def resize(live: Live, columns: int, rows: int) -> None:
    """Give a terminal another size; the programs in it are told by the system.

    Raises:
        InvalidArguments: it has ended or has no terminal, or the size is none.
    """
    if not (0 < columns <= LARGEST_SIZE and 0 < rows <= LARGEST_SIZE):
        raise InvalidArguments(f"{columns} x {rows} is no size of a terminal.")
    if live.record.is_terminal:
        raise InvalidArguments(f"{live.record.id} has ended; its terminal is gone.")
    if not live.record.tty or live.stdin_fd < 0:
        raise InvalidArguments(f"{live.record.id} has no terminal of this worker to resize.")
    set_size(live.stdin_fd, (rows, columns))
