"""What a command may reach, as a value: modes, roots and hidden paths become kernel rules.

Pure: the caller lists directories and talks to the kernel. Every path is absolute, canonical and
free of symlinks; whoever builds a plan resolves its paths first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_DIR = 1 << 4
REMOVE_FILE = 1 << 5
MAKE_CHAR = 1 << 6
MAKE_DIR = 1 << 7
MAKE_REG = 1 << 8
MAKE_SOCK = 1 << 9
MAKE_FIFO = 1 << 10
MAKE_BLOCK = 1 << 11
MAKE_SYM = 1 << 12
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

SCOPE_ABSTRACT_SOCKET = 1 << 0
SCOPE_SIGNAL = 1 << 1

MINIMUM_ABI = 3
"""The first Landlock ABI that stops truncation, and so the first that keeps a file whole."""

FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule for something that is no directory may carry."""

READ_RIGHTS = READ_FILE | READ_DIR | EXECUTE
# Device nodes are in nobody's rights: a workspace needs none, and one made there reaches the disk.
WRITE_RIGHTS = (
    WRITE_FILE
    | REMOVE_DIR
    | REMOVE_FILE
    | MAKE_DIR
    | MAKE_REG
    | MAKE_SOCK
    | MAKE_FIFO
    | MAKE_SYM
    | REFER
    | TRUNCATE
)
DEVICE_RIGHTS = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
STANDARD_DEVICES = ("/dev/ptmx",)
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the fixed place of POSIX shared memory, not a temporary file


class Plan(NamedTuple):
    """What the kernel lets a command reach; equal plans share one launcher.

    ``writable_roots`` may be written in ``standard``, and only be read in ``read_only``.
    ``private_paths`` (TMPDIR, caches) may be written in every mode. They may lie in a hidden path,
    and so may ``readable_paths``. Nothing else in ``hidden_paths`` can be read.
    """

    mode: PermissionMode
    writable_roots: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    private_paths: tuple[str, ...] = ()
    readable_paths: tuple[str, ...] = ()

    @property
    def granted_paths(self) -> tuple[str, ...]:
        """Return the paths that a launcher is bound to by device and inode."""
        return (*self.writable_roots, *self.private_paths, *self.readable_paths)


class Rule(NamedTuple):
    """One grant: these rights on this path and everything beneath it."""

    path: str
    rights: int


def handled_rights(abi: int) -> int:
    """Return every file-system right that this Landlock ABI can withhold."""
    rights = (1 << 13) - 1
    if abi >= 2:
        rights |= REFER
    if abi >= 3:
        rights |= TRUNCATE
    if abi >= 5:
        rights |= IOCTL_DEV
    return rights


def handled_scopes(abi: int) -> int:
    """Return every scope that this Landlock ABI can close."""
    return SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL if abi >= 6 else 0


def contains(outer: str, inner: str) -> bool:
    """Return whether ``inner`` is ``outer`` or lies beneath it."""
    return outer in {"/", inner} or inner.startswith(outer + "/")


def check(plan: Plan) -> None:
    """Return when the plan can be enforced as it stands.

    Raises:
        ConfigError: a path is not absolute and normal, or a grant would open a hidden path.
    """
    for path in (*plan.granted_paths, *plan.hidden_paths):
        if not is_normal(path):
            raise ConfigError(
                f"{path!r} is not an absolute path without '.', '..' or doubled slashes.",
                hint="Resolve the path before it becomes part of a confinement plan.",
            )
    if plan.mode.is_restricted:
        for hidden in plan.hidden_paths:
            _check_apart(plan, hidden)


def _check_apart(plan: Plan, hidden: str) -> None:
    for granted in plan.granted_paths:
        if contains(granted, hidden):
            raise ConfigError(
                f"{granted} contains {hidden}, which no command may read.",
                hint="Choose a workspace or root apart from Moorage's home.",
            )
    for root in plan.writable_roots:
        if contains(hidden, root):
            raise ConfigError(
                f"{root} lies in {hidden}, which no command may read.",
                hint="Choose a workspace or root apart from Moorage's home.",
            )


def is_normal(path: str) -> bool:
    """Return whether the path is absolute and spelled in its one normal way."""
    if path == "/":
        return True
    parts = path.split("/")
    return parts[0] == "" and not {"", ".", ".."} & set(parts[1:]) and "\0" not in path


def rules(plan: Plan, list_names: Callable[[str], Iterable[str]]) -> tuple[Rule, ...]:
    """Return the grants of a restricted plan; ``list_names`` gives the names in a directory.

    Rights that an older ABI does not know are for the caller to mask.

    Raises:
        ConfigError: the plan cannot be enforced as it stands.
    """
    check(plan)
    grants: dict[str, int] = {}
    for path, rights in _grants(plan, list_names):
        grants[path] = grants.get(path, 0) | rights
    return tuple(Rule(path, rights) for path, rights in grants.items())


def _grants(plan: Plan, list_names: Callable[[str], Iterable[str]]) -> Iterator[tuple[str, int]]:
    yield from _reading(plan.hidden_paths, list_names)
    yield from ((path, READ_RIGHTS) for path in plan.readable_paths)
    yield from ((path, READ_RIGHTS | WRITE_RIGHTS) for path in plan.private_paths)
    yield from ((device, DEVICE_RIGHTS) for device in DEVICES)
    match plan.mode:
        case PermissionMode.STANDARD:
            yield from ((root, READ_RIGHTS | WRITE_RIGHTS) for root in plan.writable_roots)
            yield from ((device, DEVICE_RIGHTS) for device in STANDARD_DEVICES)
            yield SHARED_MEMORY, READ_RIGHTS | WRITE_RIGHTS
        case PermissionMode.READ_ONLY:
            yield from ((root, READ_RIGHTS) for root in plan.writable_roots)
        case PermissionMode.UNCONFINED:
            raise ConfigError("an unconfined plan has no rules.")
        case _:
            assert_never(plan.mode)


def _reading(
    hidden_paths: tuple[str, ...], list_names: Callable[[str], Iterable[str]]
) -> Iterator[tuple[str, int]]:
    """Grant reading of everything but the hidden paths.

    A grant covers all that lies beneath, so what leads to a hidden path cannot be granted itself:
    its other entries are, one by one, at each level. Listing stays allowed everywhere.
    """
    if not hidden_paths:
        yield "/", READ_RIGHTS
        return
    yield "/", READ_DIR
    levels = {level for hidden in hidden_paths for level in _levels_above(hidden)}
    for level in sorted(levels):
        if any(contains(hidden, level) for hidden in hidden_paths):
            continue
        for name in sorted(list_names(level)):
            entry = f"{level.rstrip('/')}/{name}"
            if entry not in levels and entry not in hidden_paths:
                yield entry, READ_FILE | EXECUTE


def _levels_above(path: str) -> Iterator[str]:
    """Yield every directory that leads to ``path``, from the root down."""
    yield "/"
    end = path.find("/", 1)
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)
