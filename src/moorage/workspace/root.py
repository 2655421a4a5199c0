"""The folders in which the tools of a session may work, held open, and how paths resolve in them.

A path is resolved in user space and then opened below a held folder without following a symlink;
whatever is swapped in between, the kernel never leaves that folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode
from moorage.workspace.opening.beneath import open_beneath
from moorage.workspace.opening.location import (
    Location,
    Target,
    WrongFileType,
    hidden,
    outside,
    protected,
    read_only,
)
from moorage.workspace.opening.scopes import Place, Scope, hold, open_regular, open_target, refresh
from moorage.workspace.opening.turns import FileTurns
from moorage.workspace.paths import absolute_form, beneath, climbs
from moorage.workspace.protected import is_protected_name, is_repository_state

Opened = TypeVar("Opened")

# A path whose folders are swapped again and again is given up after this many attempts.
_ATTEMPTS = 8


class WorkspaceRoot:
    """The workspace and further permitted folders of one session."""

    def __init__(self, path: str, *, session_folder: str, hidden_folders: Sequence[str]) -> None:
        """Remember the names; ``open`` is the way to make one."""
        self.path = path
        self._session_folder = session_folder
        self._hidden = tuple(hidden_folders)
        self._scopes: list[Scope] = []
        self._everywhere: Scope | None = None
        self.turns = FileTurns()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        scope: Sequence[str | os.PathLike[str]] = (),
        *,
        readable: Sequence[str | os.PathLike[str]] = (),
        hidden_folders: Sequence[str | os.PathLike[str]] = (),
    ) -> WorkspaceRoot:
        """Hold the workspace, more writable folders and folders that may only be read.

        ``hidden_folders`` are out of reach in every mode, except for permitted folders inside
        them. The first ``readable`` folder is the session's own.

        Raises:
            ConfigError: one of the folders is missing or is no folder.
        """
        own = [os.path.realpath(folder) for folder in readable]
        root = cls(
            os.path.realpath(path),
            session_folder=own[0] if own else "",
            hidden_folders=[os.path.realpath(folder) for folder in hidden_folders],
        )
        try:
            root._add(root.path, is_writable=True, field="workspace")
            for folder in map(os.path.realpath, scope):
                root._add(folder, is_writable=True, field="writable_roots")
            for folder in own:
                root._add(folder, is_writable=False, field="state")
        except BaseException:
            root.close()
            raise
        return root

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the real paths of the workspace and of every further writable folder."""
        return tuple(scope.path for scope in self._scopes if scope.is_writable)

    def add_folder(self, path: str | os.PathLike[str]) -> None:
        """Permit one more writable folder, which only the user can ask for.

        Raises:
            ConfigError: the folder is missing or is no folder.
        """
        self._add(os.path.realpath(path), is_writable=True, field="writable_roots")

    def close(self) -> None:
        """Let go of every held folder."""
        scopes, self._scopes = self._scopes, []
        if self._everywhere is not None:
            scopes.append(self._everywhere)
            self._everywhere = None
        for scope in scopes:
            os.close(scope.fd)

    def is_protected(self, path: str) -> bool:
        """Return whether ``path`` carries a protected name, as text, below its root."""
        absolute = absolute_form(self.path, path, session_folder=self._session_folder)
        for scope in self._scopes:
            relative = beneath(scope.path, absolute)
            if relative is not None:
                return self._is_protected(scope, relative, absolute)
        return is_protected_name(absolute)

    def resolve(self, path: str, mode: PermissionMode, *, to_write: bool = False) -> Location:
        """Return where ``path`` leads, symlinks followed; nothing needs to exist there.

        Raises:
            Refused: it leads out of every permitted folder (reason ``boundary_denied``).
        """
        return self._resolve(path, mode, to_write=to_write).location

    def open_read(
        self, path: str, mode: PermissionMode, *, with_protected: bool = False
    ) -> tuple[int, Location]:
        """Open a regular file for reading; the caller closes the descriptor.

        A FIFO, socket or device is told by its type before anything is opened, so that nothing
        hangs and nobody at the other end notices. ``with_protected`` opens protected files in a
        restricted mode too, for a caller that redacts what it shows.

        Raises:
            Refused: the path leads outside, or is protected in a restricted mode.
            WrongFileType: there is something, but no regular file.
            OSError: it is missing, or the system refuses.
        """

        def attempt(place: Place) -> tuple[int, Location]:
            if place.location.is_protected and mode.is_restricted and not with_protected:
                raise protected(place.location.display, "read")
            return open_regular(place), place.location

        return self._attempt(path, mode, attempt)

    def open_directory(self, path: str, mode: PermissionMode) -> tuple[int, Location]:
        """Open a folder for listing; the caller closes the descriptor.

        Raises:
            Refused: the path leads outside.
            OSError: it is missing, is no folder, or the system refuses.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY
        if path == ".":  # every command that names no folder: nothing there needs resolving
            main = self._scopes[0]
            refresh(main)
            return open_beneath(main.fd, ".", flags), Location(".", self.path, False)

        def attempt(place: Place) -> tuple[int, Location]:
            return open_beneath(place.scope.fd, place.relative, flags), place.location

        return self._attempt(path, mode, attempt)

    def open_target(self, path: str, mode: PermissionMode) -> Target:
        """Hold the deepest existing folder above a file that is to be written; create nothing.

        Raises:
            Refused: the mode is ``read_only``, the path leads outside, or it is protected.
            WrongFileType: the path names a folder.
            OSError: the system refuses.
        """
        if mode is PermissionMode.READ_ONLY:
            raise read_only(path)
        if path.endswith("/"):
            raise WrongFileType(path, "folder")
        return self._attempt(path, mode, open_target, to_write=True)

    def _attempt(
        self,
        path: str,
        mode: PermissionMode,
        action: Callable[[Place], Opened],
        *,
        to_write: bool = False,
    ) -> Opened:
        """Resolve and act; start again when a symlink turned up on the way."""
        for count in range(_ATTEMPTS):
            place = self._resolve(path, mode, follow=count > 0, to_write=to_write)
            try:
                return action(place)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ESTALE):
                    raise
        raise OSError(errno.ELOOP, "symlinks in the path lead in a circle or keep changing", path)

    def _resolve(
        self, path: str, mode: PermissionMode, *, follow: bool = True, to_write: bool = False
    ) -> Place:
        absolute = absolute_form(self.path, path, session_folder=self._session_folder)
        scope = None
        if not follow and not climbs(absolute):
            scope = self._find(absolute, mode, to_write=to_write)
        if scope is None:
            absolute = os.path.realpath(absolute)
            scope = self._find(absolute, mode, to_write=to_write)
        if scope is None:
            raise outside(path)
        if self._is_hidden(absolute, to_write=to_write):
            raise hidden(path)
        refresh(scope)
        relative = beneath(scope.path, absolute) or "."
        is_main = scope is self._scopes[0]
        location = Location(
            _showable(relative if is_main else absolute),
            absolute,
            self._is_protected(scope, relative, absolute),
        )
        return Place(scope, relative, location)

    def _find(self, absolute: str, mode: PermissionMode, *, to_write: bool) -> Scope | None:
        for scope in self._scopes:
            if beneath(scope.path, absolute) is not None and (scope.is_writable or not to_write):
                return scope
        if mode.is_restricted:
            return None
        if self._everywhere is None:
            self._everywhere = hold("/", is_writable=True)
        return self._everywhere

    def _is_protected(self, scope: Scope, relative: str, absolute: str) -> bool:
        if scope is self._everywhere:
            return is_protected_name(absolute)
        # The user may grant the repository of a worktree, for commands; it stays what it is.
        is_granted_state = scope is not self._scopes[0] and is_repository_state(scope.path)
        return is_granted_state or is_protected_name(relative)

    def _is_hidden(self, absolute: str, *, to_write: bool) -> bool:
        for folder in self._hidden:
            if beneath(folder, absolute) is not None:
                return not any(
                    beneath(folder, scope.path) is not None
                    and beneath(scope.path, absolute) is not None
                    and (scope.is_writable or not to_write)
                    for scope in self._scopes
                )
        return False

    def _add(self, path: str, *, is_writable: bool, field: str) -> None:
        try:
            scope = hold(path, is_writable=is_writable)
        except OSError as error:
            raise ConfigError(
                f"the folder {path} cannot be used: {error.strerror}.",
                path=field,
                hint="Create it, or name another.",
            ) from error
        self._scopes.append(scope)


def _showable(path: str) -> str:
    """Return ``path`` with bytes that are not UTF-8 spelled out, since no text can carry them."""
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode()
