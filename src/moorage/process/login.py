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

from moorage.confine.private_folders import make_private, replace_private
from moorage.errors import ExecutionError

if TYPE_CHECKING:
    from moorage.confine.nursery import EarlyChild, Nursery
    from moorage.confine.plan import Plan
    from moorage.confine.provider import ConfinementProvider
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


class LoginCapture:
    """A capture under way, or one that was kept from before; ``finish`` or ``release`` ends it."""

    __slots__ = ("base", "child", "found", "kept_in", "marker", "problem")

    def __init__(self, base: Mapping[str, str], kept_in: Path) -> None:
        """Start from the worker's own variables."""
        self.base = base
        self.kept_in = kept_in
        self.marker = os.urandom(16).hex()
        self.found: Mapping[str, str] | None = None
        self.child: EarlyChild | None = None
        self.problem = ""

    def take_child(self) -> EarlyChild | None:
        """Return the login shell, which is now the caller's."""
        child, self.child = self.child, None
        return child

    def release(self) -> None:
        """Let go of a login shell that nobody took; it ends."""
        child = self.take_child()
        if child is not None:
            child.launch.channel.close()
            for descriptor in (child.launch.tombstone, child.stdout, child.stderr):
                os.close(descriptor)


class Login(NamedTuple):
    """What a capture gave; ``problem`` says why the worker's own variables serve instead."""

    variables: Mapping[str, str]
    problem: str = ""


def begin(
    nursery: Nursery,
    base: Mapping[str, str],
    folder: Path,
    *,
    plan: Plan,
    provider: ConfinementProvider | None = None,
) -> LoginCapture:
    """Start a login shell that prints its variables, unless an earlier capture still holds.

    ``folder`` is private and keeps captures, by user, startup files and ``base``. The shell runs
    confined: it can write nothing.
    """
    capture = LoginCapture(base, folder / f"{_key(base)}.variables")
    with suppress(OSError):
        capture.found = _parse(capture.kept_in.read_bytes())
        return capture
    argv = ("bash", "-lc", f"printf '%s\\0' {capture.marker}; exec env -0")
    home = base.get("HOME", "/")
    try:
        capture.child = nursery.begin(
            plan, argv, base, cwd=home if os.path.isdir(home) else "/", provider=provider
        )
    except ExecutionError as error:
        capture.problem = str(error)
    return capture


async def finish(
    capture: LoginCapture, supervisor: Supervisor, *, seconds: float = CAPTURE_SECONDS
) -> Login:
    """Return the variables of the login, or those of the worker with the problem named."""
    if capture.found is not None:
        return Login(capture.found)
    child = capture.take_child()
    if child is None:
        return Login(capture.base, capture.problem)
    try:
        printed = await _printed(child, supervisor, seconds)
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
        make_private(file.parent)
        replace_private(file, variables, is_synced=False)
