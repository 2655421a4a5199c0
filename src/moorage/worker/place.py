"""The folders of one bound session in its environment, and the plans that confine its commands."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import msgspec

from moorage.confine.code_places import check_code_apart, code_places
from moorage.confine.plan import Plan
from moorage.confine.private_folders import make_private
from moorage.errors import ConfigError, RetainedStateMissing
from moorage.policy.permission import PermissionMode
from moorage.policy.workspace_rules import check_apart
from moorage.process.leftovers import remove_tree
from moorage.protocol.binding import Binding
from moorage.worker.options import WorkerOptions


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one session works: its resolved root and the worker's own folders for it.

    ``temporary`` is private to this worker and goes with it; ``cache`` is kept per workspace.
    ``made_root`` is the device and inode of a root that this worker made itself.
    """

    root: str
    state: Path
    temporary: Path
    cache: Path
    made_root: tuple[int, int] | None
    options: WorkerOptions

    @property
    def writable_roots(self) -> tuple[str, ...]:
        """Return every folder that tools and commands may write in ``standard``."""
        return (self.root, *self.options.writable_roots)

    def plan(self, mode: PermissionMode) -> Plan:
        """Return what the kernel has to enforce on commands in ``mode``."""
        private = (str(self.temporary), str(self.cache))
        return Plan(
            mode=mode,
            writable_roots=self.writable_roots,
            hidden_paths=self.options.hidden_paths,
            private_paths=private if mode is PermissionMode.STANDARD else private[:1],
            readable_paths=(str(self.state),),
        )

    def remove(self, *, with_root: bool) -> None:
        """Remove the temporary folder, and the root when it still is the one that was made here.

        Whatever has taken its name since, such as a symlink or another folder, is left.

        Raises:
            OSError: something could not be removed; it is left for inspection.
        """
        remove_tree(self.temporary)
        if with_root and self.made_root is not None and _identity(self.root) == self.made_root:
            remove_tree(self.root)


def prepare(binding: Binding, options: WorkerOptions) -> Place:
    """Make the folders of a session and return them.

    Raises:
        RetainedStateMissing: the workspace must exist and does not; it is not made.
        ConfigError: the workspace cannot be made, or overlaps Moorage's own folders.
    """
    root, made_root = _root(binding)
    restricted = options.highest is not PermissionMode.UNCONFINED
    if restricted:
        check_apart((root,), options.hidden_paths)
        check_apart(options.writable_roots, options.hidden_paths, field="writable_roots")
    if options.highest is PermissionMode.STANDARD:
        places = code_places(sys.path)
        check_code_apart((root,), places)
        check_code_apart(options.writable_roots, places, field="writable_roots")
    state = options.state / binding.identity / binding.session
    cache = options.state / "caches" / hashlib.sha256(root.encode()).hexdigest()[:24]
    try:
        for folder in (state.parent, state, cache.parent, cache):
            make_private(folder)
        temporary = _temporary_folder()
    except OSError as error:
        raise ConfigError(
            f"the worker cannot keep its state: {error}.",
            hint="Name a writable folder with --state, and make the temporary folder writable.",
        ) from error
    return Place(
        root=root,
        state=state,
        temporary=temporary,
        cache=cache,
        made_root=made_root,
        options=options,
    )


def _temporary_folder() -> Path:
    """Make a private folder with a short path: sockets are made in it, whose paths are bounded."""
    folder = os.path.realpath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - mode 0700 below
    made = Path(folder) / f"moorage-{os.urandom(6).hex()}"
    made.mkdir(mode=0o700)
    return made


def _identity(path: str) -> tuple[int, int] | None:
    """Return which folder or symlink stands at ``path``, or ``None`` when nothing does."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _root(binding: Binding) -> tuple[str, tuple[int, int] | None]:
    """Return the resolved root, and which folder it is if it was made now."""
    named = Path(binding.root)
    if named.is_dir():
        return os.path.realpath(named), None
    if binding.require_existing_workspace:
        raise RetainedStateMissing(
            f"the workspace {binding.root} is gone; nothing was made in its place.",
            hint="Put it back, or open a new session.",
        )
    try:
        make_private(named)
    except OSError as error:
        raise ConfigError(f"the workspace {binding.root} cannot be made: {error}.") from error
    root = os.path.realpath(named)
    return root, _identity(root)
