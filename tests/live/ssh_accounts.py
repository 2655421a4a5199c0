"""The accounts of the tests' SSH server, in files of its own: the machine's stay as they are."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from tests.live.places import BARE_ROOT

ORDINARY = "moorage-live"
"""An account with a shell, a home and a Python, and without rights."""
BARE = "moorage-bare"
"""An account whose world holds bash and busybox, and no Python."""
BARE_HOME = Path("/workspace")

FILES = ("passwd", "shadow", "group")
_FIRST_UID = 61_300


def make_accounts(homes: Path, place: Path) -> None:
    """Write the account files into ``place``, and make the homes below ``homes``."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    free = (uid for uid in range(_FIRST_UID, 65_000) if uid not in taken)
    accounts = {
        "root": (0, homes / "root"),
        ORDINARY: (next(free), homes / "home"),
        BARE: (next(free), BARE_HOME),
    }
    for uid, home in (accounts["root"], accounts[ORDINARY]):
        home.mkdir(mode=0o700)
        os.chown(home, uid, uid)
    _write_files(accounts, place)
    _make_bare_world(accounts[BARE][0], place)


def _write_files(accounts: dict[str, tuple[int, Path]], place: Path) -> None:
    others = [line for line in _lines("/etc/passwd") if not line.startswith("root:")]
    own = [f"{name}:x:{uid}:{uid}::{home}:/bin/bash" for name, (uid, home) in accounts.items()]
    _write(place / "passwd", own + others)
    # No password, yet no locked account either: the server lets none of those in.
    _write(place / "shadow", [f"{name}:*:19000:0:99999:7:::" for name in accounts])
    (place / "shadow").chmod(0o600)
    groups = [f"{name}:x:{uid}:" for name, (uid, _) in accounts.items() if uid]
    _write(place / "group", _lines("/etc/group") + groups)


def _make_bare_world(uid: int, place: Path) -> None:
    world = place / "bare"
    shutil.copytree(BARE_ROOT, world, symlinks=True)
    os.chown(world / BARE_HOME.relative_to("/"), uid, uid)
    for name in ("passwd", "group"):
        shutil.copy(place / name, world / "etc" / name)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")
