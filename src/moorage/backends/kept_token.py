"""The token of a worker that stays, kept where only the user can read it."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from moorage.errors import ConfigError
from moorage.protocol.secret import Secret

NAME = "token"
_TOKEN = re.compile(rb"[0-9a-f]{64}")


def kept_token(folder: Path) -> Secret:
    """Return the token that is kept in a private folder, made when there is none.

    Two hosts that ask at once get the same one.

    Raises:
        ConfigError: it is damaged, open to others, or cannot be kept.
    """
    file = folder / NAME
    try:
        if not os.path.lexists(file):
            _make(file)
        return _read(file)
    except OSError as error:
        raise ConfigError(
            f"the token of the session's worker cannot be kept in {file}: {error.strerror}.",
            hint="Make Moorage's home writable, and let nothing else lie there.",
        ) from error


def has_token(folder: Path) -> bool:
    """Return whether a token was kept in the folder, so that there may be a worker."""
    return os.path.lexists(folder / NAME)


def _make(file: Path) -> None:
    staged = file.with_suffix(f".{secrets.token_hex(4)}")
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as written:
            written.write(secrets.token_hex(32).encode())
            written.flush()
            os.fsync(written.fileno())
        with suppress(FileExistsError):  # another host was faster; its token counts
            file.hardlink_to(staged)
    finally:
        staged.unlink(missing_ok=True)


def _read(file: Path) -> Secret:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(opened.fileno())
        is_private = stat.S_ISREG(status.st_mode) and not stat.S_IMODE(status.st_mode) & 0o077
        data = opened.read(256) if is_private and status.st_uid == os.geteuid() else b""
    if not _TOKEN.fullmatch(data):
        raise ConfigError(
            f"{file} is damaged, or others may read it; it is not used.",
            hint="End the session's worker with `moorage session stop`, and remove that file.",
        )
    return Secret(data.decode())
