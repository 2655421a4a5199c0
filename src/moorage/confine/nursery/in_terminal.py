"""Start a program in a terminal of its own: its session's controlling one, and the only one open.

What ``posix_spawn`` cannot do takes a fork: to take hold of the terminal, and to enter a second
domain that closes every other terminal to this program alone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import termios
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Python, the nursery or whoever started the worker may ignore these; a program expects none of it.
RESET_SIGNALS = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGCHLD,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGXFSZ,
)

_ERRNO = struct.Struct("=i")


def start(
    program: bytes,
    argv: Sequence[bytes],
    variables: Mapping[bytes, bytes],
    terminal: int,
    guard: Callable[[], None],
) -> int:
    """Start a program in this terminal and return its pid.

    ``guard`` runs in the new process before the program does.

    Raises:
        OSError: the program or the terminal cannot be used; nothing ran.
    """
    failure, failure_end = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(failure, "rb", buffering=0) as file:
        try:
            pid = os.fork()
            if pid == 0:
                become(program, argv, variables, (terminal, failure_end), guard)
        finally:
            os.close(failure_end)
        # It ends without a word as soon as the program runs.
        told = file.read(_ERRNO.size)
    if told:
        os.waitpid(pid, 0)
        (code,) = _ERRNO.unpack(told)
        raise OSError(code, os.strerror(code), os.fsdecode(program))
    return pid


def become(
    program: bytes,
    argv: Sequence[bytes],
    variables: Mapping[bytes, bytes],
    held: tuple[int, int],
    guard: Callable[[], None],
) -> NoReturn:
    """Turn this freshly forked process into the program.

    ``held`` is the terminal, and the pipe that tells why it could not be.
    """
    terminal, failure_end = held
    try:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        guard()
        for stream in (0, 1, 2):
            os.dup2(terminal, stream)
        for number in RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(program, list(argv), variables)  # noqa: S606 - that is what this is for
    except OSError as error:
        os.write(failure_end, _ERRNO.pack(error.errno or errno.EIO))
    finally:
        os._exit(127)
