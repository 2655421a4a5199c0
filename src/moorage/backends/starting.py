"""Starts a local worker that stays: one program that leaves it behind and ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio

from moorage.backends.grants import write_record
from moorage.backends.kept_token import kept_token
from moorage.backends.stay import LOG, Stay, StayingLimits
from moorage.errors import BackendUnavailable, ExecutionError
from moorage.protocol.failures import from_wire
from moorage.transports.descriptors import FdReader

_READY = b"ready\n"


async def start(stay: Stay, limits: StayingLimits) -> None:
    """Start the worker and return when it listens.

    Raises:
        ProvisionError: it did not come up.
    """
    write_record(stay)
    token = kept_token(stay.folder)
    with ExitStack() as opened:
        log = _open_log(stay.folder / LOG, limits)
        opened.callback(os.close, log)
        token_fd, ready_fd, ready = _pipes(opened, token.reveal().encode())
        options = (
            f"--stay={stay.folder}",
            f"--idle-seconds={limits.idle_seconds}",
            f"--token-fd={token_fd}",
            f"--ready-fd={ready_fd}",
        )
        await _spawn((*stay.argv, *options), stay.variables, log, (token_fd, ready_fd))
        os.close(ready_fd)
        said = await _heard(ready, limits.start_seconds)
    if said != _READY:
        raise _why_not_started(stay, said, limits)


def _pipes(opened: ExitStack, token: bytes) -> tuple[int, int, FdReader]:
    """Return what the token is read from, what readiness is written to, and what reads that.

    The second is for the caller to close.
    """
    token_fd, token_end = os.pipe()
    opened.callback(os.close, token_fd)
    with os.fdopen(token_end, "wb") as written:
        written.write(token)
    ready_end, ready_fd = os.pipe()
    ready = FdReader(ready_end)
    opened.callback(ready.close)
    return token_fd, ready_fd, ready


async def _spawn(
    argv: Sequence[str], variables: Mapping[str, str], log: int, fds: tuple[int, int]
) -> None:
    """Run the program that leaves the worker behind as a process of its own."""
    try:
        starter = await anyio.open_process(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=variables,
            pass_fds=fds,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        os.close(fds[1])
        raise BackendUnavailable(
            f"cannot start {argv[0]!r}: {error}.",
            hint="Check that it is installed and may be executed.",
        ) from error
    with anyio.CancelScope(shield=True):
        await starter.wait()


async def _heard(ready: FdReader, seconds: float) -> bytes:
    """Return what a starting worker says until it is ready or gone."""
    said = b""
    with anyio.move_on_after(seconds):
        while said != _READY and (data := await ready.receive()):
            said += data
    return said


def _why_not_started(stay: Stay, said: bytes, limits: StayingLimits) -> ExecutionError:
    if said:
        return from_wire(said.decode("utf-8", "replace"))
    with (stay.folder / LOG).open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - limits.log_tail_bytes))
        tail = log.read().decode("utf-8", "replace").strip()
    words = f" Its last words: {tail}" if tail else ""
    return BackendUnavailable(
        f"the worker of session {stay.session} did not start.{words}", hint=stay.see_log()
    )


def _open_log(file: Path, limits: StayingLimits) -> int:
    with suppress(FileNotFoundError):
        if file.stat().st_size > limits.max_log_bytes:
            file.replace(file.with_suffix(".old"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(file, flags, 0o600)
