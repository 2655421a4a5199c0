"""``moorage-worker connect``: find or start the worker of one session here, and pass bytes to it.

This is how a host reaches a worker that outlives the way to it, in a container or on another
machine: the same worker answers the next time. It imports little, so that it starts soon.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from moorage.confine.private_folders import make_private
from moorage.errors import BackendUnavailable, ConfigError, ExecutionError
from moorage.transports import private_sockets
from moorage.transports.standing_end import end_holder

Work = Callable[[list[str]], int]
"""A worker: takes its own options, and returns its exit code."""

OTHER_VERSION = 94
"""The exit code of a worker that is not the one expected."""

SOCKET = "socket"
LOG = "log"
DEFAULT_IDLE_SECONDS = 600.0

_START_LOCK = "start"
_READY = b"ready\n"
_START_SECONDS = 20.0
_LOCK_SECONDS = 30.0
_CONNECT_SECONDS = 5.0
_RETRY_SECONDS = 0.02
_END_SECONDS = 12.0
_KILL_SECONDS = 2.0
_MAX_LOG_BYTES = 1024 * 1024
_TAIL_BYTES = 2048
_CHUNK = 256 * 1024
_FIRST_FREE, _HIGHEST = 3, 4096
_HELP_COLUMNS = 98
_LONGEST_NAME_BYTES = 200


def parser() -> argparse.ArgumentParser:
    """Return the parser; what it does not know is for the worker that is started."""
    described = argparse.ArgumentParser(
        prog="moorage-worker connect",
        description="Reach the worker of one session, started when there is none, "
        "over standard input and output.",
        allow_abbrev=False,
        # Told its width, it does not load what finds it out.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=_HELP_COLUMNS),
    )
    described.add_argument("--name", required=True, help="which worker; one per session")
    described.add_argument("--state", default="", help="where the worker keeps its state")
    described.add_argument(
        "--idle-seconds", type=float, default=DEFAULT_IDLE_SECONDS,
        help="how long it stays without a host and without a running process",
    )  # fmt: skip
    described.add_argument("--make", metavar="DIR", help="make this folder, where it is not there")
    described.add_argument(
        "--expect", metavar="VERSION", default="", help="go on only as this version"
    )
    described.add_argument("--end", action="store_true", help="end the worker and do nothing else")
    described.add_argument(
        "--start", action="store_true", help="have the worker started and do nothing else"
    )
    return described


def main(arguments: list[str], work: Work) -> int:
    """Pass bytes between standard streams and the worker until one side ends.

    ``work`` is the worker itself, which may have to be started.
    """
    parsed, granted = parser().parse_known_args(arguments)
    if parsed.expect and parsed.expect != (own := _version()):
        sys.stderr.write(f"moorage-worker: this is version {own}, and not {parsed.expect}.\n")
        return OTHER_VERSION
    try:
        folder = folder_of(parsed.name, parsed.state)
        if parsed.end:
            end_holder(folder, end_seconds=_END_SECONDS, kill_seconds=_KILL_SECONDS)
            return 0
        if parsed.make:
            _make(parsed.make)
        idle = parsed.idle_seconds if parsed.idle_seconds > 0 else DEFAULT_IDLE_SECONDS
        state = [f"--state={parsed.state}"] if parsed.state else []
        options = [*state, *granted, f"--idle-seconds={idle}", f"--stay={folder}"]
        connected = reach(folder, lambda ready_fd: work([*options, f"--ready-fd={ready_fd}"]))
    except ExecutionError as error:
        sys.stderr.write(f"moorage-worker: {error}\n")
        return 1
    with connected:
        if not parsed.start:
            relay(connected)
    return 0


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - it is slow

    return version("moorage")


def folder_of(name: str, state: str) -> Path:
    """Return the private folder of one worker, which lies in its state, hidden from commands.

    Raises:
        ConfigError: the name is none, or the folder cannot be used.
    """
    is_long = len(os.fsencode(name)) > _LONGEST_NAME_BYTES
    if not name or is_long or name != os.path.basename(name) or name in {".", ".."}:
        raise ConfigError(f"{name!r} cannot name a worker.")
    above = os.path.realpath(state or os.path.expanduser("~/.moorage-worker"))
    # A home may be shared by several machines, a socket is not; nor does it survive a boot.
    with suppress(OSError):
        name += "-" + Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    folder = Path(above) / "connected" / name
    try:
        make_private(folder)
    except OSError as error:
        raise ConfigError(
            f"the worker cannot keep its state in {above}: {error.strerror or error}.",
            hint="Give it a home that it can write.",
        ) from error
    return folder


def _make(folder: str) -> None:
    try:
        make_private(folder)
    except OSError as error:
        raise ConfigError(
            f"the workspace {folder} cannot be made: {error.strerror or error}.",
            hint="Name a folder that the account can write.",
        ) from error


def reach(folder: Path, begin: Callable[[int], int]) -> socket.socket:
    """Return a connection to the worker, which is started when there is none.

    Raises:
        BackendUnavailable: it could not be started or reached.
    """
    connected = _dial(folder)
    if connected is None:
        with _start_lock(folder):
            connected = _dial(folder)
            if connected is None:
                _start(folder, begin)
                connected = _dial(folder)
    if connected is None:
        raise BackendUnavailable("the worker went away as soon as it was started.")
    return connected


def relay(connected: socket.socket) -> None:
    """Pass bytes both ways; the end of our input is passed on, the end of its output ends us."""
    connected.setblocking(True)
    threading.Thread(target=_pass_in, args=(connected,), daemon=True).start()
    with suppress(OSError):
        while data := connected.recv(_CHUNK):
            _write_all(data)


def _pass_in(connected: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(0, _CHUNK):
            connected.sendall(data)
    with suppress(OSError):
        connected.shutdown(socket.SHUT_WR)


def _write_all(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def _dial(folder: Path) -> socket.socket | None:
    """Return a connected socket, or ``None`` when nobody listens."""
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return private_sockets.connect(folder / SOCKET)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise BackendUnavailable("the worker takes no connections.") from error
            time.sleep(_RETRY_SECONDS)  # noqa: TID251 - no event tells of room in a queue
        except OSError as error:
            raise BackendUnavailable(f"the worker cannot be reached: {error}.") from error


@contextmanager
def _start_lock(folder: Path) -> Iterator[None]:
    """Be the only one that starts this worker."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder / _START_LOCK, flags, 0o600)
    deadline = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise BackendUnavailable(
                        f"another program has been starting this worker for {_LOCK_SECONDS:g} s.",
                        hint="Try again when it has ended.",
                    ) from error
                time.sleep(_RETRY_SECONDS)  # noqa: TID251 - a lock with a bound
        yield
    finally:
        # The worker may have been forked meanwhile, and then shares the lock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _start(folder: Path, begin: Callable[[int], int]) -> None:
    """Start the worker and return when it listens.

    It is a fork of this program: what both need has been imported by now, and it is found again
    whatever way this program was started.

    Raises:
        BackendUnavailable: it did not come up; its own words say why.
    """
    ready, told = os.pipe()
    try:
        child = os.fork()
        if child == 0:
            _become_worker(folder, told, begin)
        os.close(told)
        os.waitpid(child, 0)
        said = _heard(ready)
    finally:
        os.close(ready)
    if said != _READY:
        raise BackendUnavailable(f"the worker did not start: {said.decode() or _tail(folder)}")


def _become_worker(folder: Path, told: int, begin: Callable[[int], int]) -> NoReturn:
    """Go on as the worker, apart from everything that is open here, but for ``told``."""
    code = 1
    try:
        os.closerange(_FIRST_FREE, told)
        os.closerange(told + 1, _HIGHEST)
        null = os.open(os.devnull, os.O_RDONLY)
        with _log(folder / LOG) as log:
            for source, target in ((null, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
        os.close(null)
        os.umask(0o077)
        code = begin(told)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - said in the log, and nothing may go on from here
        import traceback  # noqa: PLC0415 - it is slow

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _heard(ready: int) -> bytes:
    """Return what a starting worker says until it is ready, gone or late."""
    said, deadline = b"", time.monotonic() + _START_SECONDS
    while said != _READY and (left := deadline - time.monotonic()) > 0:
        if not select.select([ready], [], [], left)[0]:
            break
        data = os.read(ready, _CHUNK)
        if not data:
            break
        said += data
    return said


@contextmanager
def _log(file: Path) -> Iterator[int]:
    with suppress(FileNotFoundError):
        if file.stat().st_size > _MAX_LOG_BYTES:
            file.replace(file.with_suffix(".old"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(file, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _tail(folder: Path) -> str:
    words = (folder / LOG).read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace").strip()
    return f"its last words: {words}" if words else "it said nothing."
