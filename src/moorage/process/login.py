"""The user's login environment, captured once and reused by every command.

A login shell for each command would cost a hundred milliseconds and more. ``begin`` starts one at
the worker's very start, before an event loop is imported; ``finish`` takes what it printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from moorage.confine.plan import Plan
from moorage.errors import ExecutionError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from moorage.confine.nursery import EarlyChild, Nursery
    from moorage.process.supervisor import Supervisor

CAPTURE_SECONDS = 5.0
LARGEST_BYTES = 1024 * 1024
"""Above this the kernel would not start a command with the variables anyway."""

_STARTUP_FILES = (
    "/etc/profile",
    "/etc/environment",
    "/etc/bash.bashrc",
    "/etc/profile.d",
    "~/.bash_profile",
    "~/.bash_login",
    "~/.profile",
    "~/.bashrc",
)


class LoginCapture(NamedTuple):
    """A capture under way, or one that was kept from before."""

    base: Mapping[str, str]
    kept_in: Path
    marker: str
    found: Mapping[str, str] | None = None
    child: EarlyChild | None = None
    problem: str = ""


class Login(NamedTuple):
    """What a capture gave; ``problem`` says why the worker's own variables serve instead."""

    variables: Mapping[str, str]
    problem: str = ""


def begin(
    nursery: Nursery, base: Mapping[str, str], folder: Path, *, plan: Plan | None = None
) -> LoginCapture:
    """Start a login shell that prints its variables, unless an earlier capture still holds.

    ``folder`` is private and keeps captures, by user, startup files and ``base``. The shell runs
    confined: it can write nothing.
    """
    kept_in = folder / f"{_key(base)}.variables"
    marker = os.urandom(16).hex()
    with suppress(OSError):
        found = _parse(kept_in.read_bytes())
        return LoginCapture(base, kept_in, marker, found=found)
    argv = ("bash", "-lc", f"printf '%s\\0' {marker}; exec env -0")
    try:
        child = nursery.begin(
            plan or Plan(mode=PermissionMode.READ_ONLY), argv, base, cwd=base.get("HOME", "/")
        )
    except ExecutionError as error:
        return LoginCapture(base, kept_in, marker, problem=str(error))
    return LoginCapture(base, kept_in, marker, child=child)


async def finish(
    capture: LoginCapture, supervisor: Supervisor, *, seconds: float = CAPTURE_SECONDS
) -> Login:
    """Return the variables of the login, or those of the worker with the problem named."""
    if capture.found is not None:
        return Login(capture.found)
    if capture.child is None:
        return Login(capture.base, capture.problem)
    try:
        printed = await _printed(capture.child, supervisor, seconds)
    except ExecutionError as error:
        return Login(capture.base, str(error))
    _, is_whole, variables = printed.rpartition(f"{capture.marker}\0".encode())
    if not is_whole or not variables:
        return Login(
            capture.base, f"the login shell did not print its variables within {seconds:g} s."
        )
    _keep(capture.kept_in, variables)
    return Login(_parse(variables))


async def _printed(child: EarlyChild, supervisor: Supervisor, seconds: float) -> bytes:
    import anyio  # noqa: PLC0415 - `begin` runs before an event loop may be imported

    printed = bytearray()
    async with supervisor.adopt(child) as shell:
        with anyio.move_on_after(seconds) as scope:
            while len(printed) <= LARGEST_BYTES and (data := await shell.stdout.read()):
                printed += data
            status = await shell.wait()
        if scope.cancelled_caught or status.exit_code != 0:
            return b""
    return bytes(printed)


def _key(base: Mapping[str, str]) -> str:
    """Return a name for everything that a login depends on."""
    seen = [str(os.getuid()), *(f"{name}={base[name]}" for name in sorted(base))]
    for file in _STARTUP_FILES:
        with suppress(OSError):
            path = file.replace("~", base.get("HOME", "/"), 1)
            status = os.stat(path)
            seen.append(f"{path}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}")
    return sha256("\0".join(seen).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _parse(variables: bytes) -> dict[str, str]:
    entries = variables.decode("utf-8", "surrogateescape").split("\0")
    pairs = (entry.partition("=") for entry in entries if "=" in entry)
    return {name: value for name, _, value in pairs if name and not name.startswith("BASH_FUNC_")}


def _keep(file: Path, variables: bytes) -> None:
    """Keep a capture for the next worker; without it the next one captures again."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(variables)
        staged.replace(file)
