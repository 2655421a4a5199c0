"""What is kept of each session: its selection, which decides where its tools run for good."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from moorage.backends.profile import Profile
from moorage.confine.private_folders import make_private, replace_private
from moorage.errors import ConfigError, NotFound
from moorage.policy.permission import PermissionMode

_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")


class Selection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The saved choice of one session; ``profile`` is absent for ``local``."""

    id: str
    environment: str
    workspace: str
    mode: PermissionMode
    created_at: datetime
    name: str = ""
    profile: Profile | None = None
    writable_roots: tuple[str, ...] = ()


class SessionStore:
    """The folders of all sessions of one home."""

    def __init__(self, folder: Path) -> None:
        """Keep the folder that holds one folder per session; it is made when needed."""
        self._folder = folder

    def folder(self, session_id: str) -> Path:
        """Return the folder of one session.

        Raises:
            ConfigError: the text cannot be the id of a session.
        """
        if not _ID.fullmatch(session_id):
            raise ConfigError(f"{session_id!r} is not the id of a session.")
        return self._folder / session_id

    def create(self, selection: Selection) -> Path:
        """Make the session's folder, save its selection, and return the folder.

        Raises:
            ConfigError: the state folder cannot be written, or the name is taken.
        """
        folder = self.folder(selection.id)
        try:
            make_private(folder.parent)
            with self._alone():
                self._check_name_is_free(selection.name)
                folder.mkdir(mode=0o700)
                self.save(selection)
        except UnicodeEncodeError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ConfigError(
                "the name of a folder is not valid UTF-8, so the session cannot be saved.",
                hint="Rename the folder, or reach it by a link with a plain name.",
            ) from error
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ConfigError(
                f"the session cannot be kept in {folder}: {error.strerror}.",
                hint="Make Moorage's home writable, or name another one with MOORAGE_HOME.",
            ) from error
        return folder

    def _check_name_is_free(self, name: str) -> None:
        if name and any(kept.name == name for kept in self.all()):
            raise ConfigError(
                f"a session named {name!r} exists already.",
                hint="Open it by that name in place of an id, or take another name.",
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Be the only one who makes a session, so that no two get the same name."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def save(self, selection: Selection) -> None:
        """Replace the saved selection atomically, synced to disk."""
        text = msgspec.json.format(msgspec.json.encode(selection)) + b"\n"
        replace_private(self.folder(selection.id) / "selection.json", text)

    def load(self, session: str) -> Selection:
        """Return the selection of the session with this id or name.

        Raises:
            NotFound: there is none. It never becomes a new session.
            ConfigError: its file is damaged.
        """
        if _ID.fullmatch(session) and (self._folder / session).is_dir():
            return self._read(session)
        named = [kept for kept in self.all() if kept.name == session]
        if not named:
            raise NotFound(
                f"no session has the id or name {session!r}.",
                hint="See `moorage session list`.",
            )
        return named[0]

    def all(self) -> list[Selection]:
        """Return the readable selections, oldest first."""
        if not self._folder.is_dir():
            return []
        kept = []
        for folder in self._folder.iterdir():
            try:
                kept.append(self._read(folder.name))
            except ConfigError:
                continue
        return sorted(kept, key=lambda selection: selection.created_at)

    def remove(self, session: str) -> str:
        """Delete what is kept of the session with this id or name, damaged or not; return its id.

        Raises:
            NotFound: there is none.
        """
        session_id = self.id_of(session)
        shutil.rmtree(self.folder(session_id))
        return session_id

    def id_of(self, session: str) -> str:
        """Return the id of the session with this id or name, damaged or not.

        Raises:
            NotFound: there is none.
        """
        is_id = _ID.fullmatch(session) and (self._folder / session).is_dir()
        return session if is_id else self.load(session).id

    def _read(self, session_id: str) -> Selection:
        file = self.folder(session_id) / "selection.json"
        try:
            return msgspec.json.decode(file.read_bytes(), type=Selection)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"the saved selection of session {session_id} cannot be read: {error}.",
                hint=f"Remove it with `moorage session rm {session_id}`.",
            ) from error


def new_session_id() -> str:
    """Return a new id, such as ``s-20260131-8f3a1c9e``."""
    return f"s-{datetime.now(UTC):%Y%m%d}-{secrets.token_hex(4)}"
