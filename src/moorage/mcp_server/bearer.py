"""The bearer token of the HTTP server: one file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from moorage.confine.private_folders import make_private
from moorage.errors import ConfigError
from moorage.protocol.secret import Secret

TOKEN_BYTES = 32
LEAST_TOKEN_LENGTH = 32
MOST_TOKEN_LENGTH = 4096


def read_or_make_token(file: Path) -> tuple[Secret, bool]:
    """Return the token that ``file`` holds and whether it had to be made.

    Raises:
        ConfigError: the file cannot be read or made, others can read it, or it holds no good token.
    """
    try:
        return make_token(file), True
    except FileExistsError:
        return read_token(file), False
    except OSError as error:
        raise ConfigError(f"the token file {file} cannot be made: {error.strerror}.") from error


def make_token(file: Path) -> Secret:
    """Write a new token to ``file``, readable by its owner alone.

    Raises:
        FileExistsError: something is there already.
        OSError: the file cannot be made.
    """
    token = Secret(secrets.token_urlsafe(TOKEN_BYTES))
    if not file.parent.exists():
        make_private(file.parent)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(token.reveal() + "\n")
    return token


def read_token(file: Path) -> Secret:
    """Return the token that ``file`` holds.

    Raises:
        ConfigError: it is no regular file, it is another user's, others can read it, or it holds no
            good token.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(f"the token file {file} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        _check_private(status, file, os.geteuid())
        text = opened.read(MOST_TOKEN_LENGTH + 1)
    return _checked(text.strip(), file)


def is_right_token(header: bytes | None, token: Secret) -> bool:
    """Return whether an ``Authorization`` header carries the token; the time tells nothing."""
    scheme, _, given = (header or b"").partition(b" ")
    if scheme.lower() != b"bearer":
        return False
    return token.matches(given.strip().decode("latin-1"))


def _check_private(status: os.stat_result, file: Path, user: int) -> None:
    """Return when nobody but ``user`` and root can know what the file holds."""
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"the token file {file} is not a regular file.")
    if status.st_uid not in {user, 0}:
        raise ConfigError(
            f"the token file {file} belongs to another user (id {status.st_uid}), who knows it.",
            hint="Name a file of your own; one that does not exist is made.",
        )
    if status.st_mode & 0o077:
        raise ConfigError(
            f"the token file {file} can be read by others (mode {status.st_mode & 0o777:04o}).",
            hint=f"Run `chmod 600 {file}`.",
        )


def _checked(text: bytes, file: Path) -> Secret:
    is_plain = text.isascii() and text.decode("ascii", "replace").isprintable()
    if not is_plain or b" " in text or not LEAST_TOKEN_LENGTH <= len(text) <= MOST_TOKEN_LENGTH:
        raise ConfigError(
            f"the token file {file} holds no token of {LEAST_TOKEN_LENGTH} to "
            f"{MOST_TOKEN_LENGTH} printable characters.",
            hint="Remove the file to have a new token made.",
        )
    return Secret(text.decode("ascii"))
