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

DEVICE_FOLDER = "/dev"
"""Closed but for the devices below: a disk or a terminal in it holds what hidden paths hide."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
READABLE_DEVICES = ("/dev/random", "/dev/urandom")
STANDARD_DEVICES = ("/dev/ptmx",)
TERMINALS = "/dev/pts"
"""Where the terminals of everybody lie; a program may open its own one alone."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the fixed place of POSIX shared memory, not a temporary file


class Plan(NamedTuple):
    """What the kernel lets a command reach; equal plans share one launcher.

    ``writable_roots`` may be written in ``standard``, and only be read in ``read_only``.
    ``private_paths`` (TMPDIR, caches) may be written in every mode. They may lie in a hidden path,
    and so may ``readable_paths``. Nothing else in ``hidden_paths`` can be read. ``terminals`` are
    folders of terminals for a launcher that closes all but one to each program that it starts.
    """

    mode: PermissionMode
    writable_roots: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    private_paths: tuple[str, ...] = ()
    readable_paths: tuple[str, ...] = ()
    terminals: tuple[str, ...] = ()

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
    for path in (*plan.granted_paths, *plan.hidden_paths, *plan.terminals):
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
    head, *parts = path.split("/")
    return head == "" and parts != [] and not {"", ".", ".."} & set(parts) and "\0" not in path


class Mount(NamedTuple):
    """Where a part of a file system can be seen: its device, its folder there, its place here."""

    device: str
    root: str
    point: str


def rules(
    plan: Plan, list_names: Callable[[str], Iterable[str]], mounts: Iterable[Mount] = ()
) -> tuple[Rule, ...]:
    """Return the grants of a restricted plan; ``list_names`` gives the names in a directory.

    With the ``mounts`` of the machine, a hidden path is hidden wherever else it can be seen, too.
    Rights that an older ABI does not know are for the caller to mask.

    Raises:
        ConfigError: the plan cannot be enforced as it stands.
    """
    mounts = tuple(mounts)
    seen = {alias for path in plan.hidden_paths for alias in aliases(path, mounts)}
    plan = plan._replace(hidden_paths=tuple(sorted({*plan.hidden_paths, *seen})))
    check(plan)
    grants: dict[str, int] = {}
    for path, rights in _grants(plan, list_names):
        grants[path] = grants.get(path, 0) | rights
    return tuple(Rule(path, rights) for path, rights in grants.items())


def _grants(plan: Plan, list_names: Callable[[str], Iterable[str]]) -> Iterator[tuple[str, int]]:
    yield from _reading({DEVICE_FOLDER, *plan.hidden_paths}, list_names)
    yield from ((path, READ_RIGHTS) for path in plan.readable_paths)
    yield from ((path, READ_RIGHTS | WRITE_RIGHTS) for path in plan.private_paths)
    yield from ((device, DEVICE_RIGHTS) for device in DEVICES)
    yield from ((device, READ_FILE) for device in READABLE_DEVICES)
    yield from ((folder, DEVICE_RIGHTS) for folder in plan.terminals)
    match plan.mode:
        case PermissionMode.STANDARD:
            yield from ((root, _writing(root)) for root in plan.writable_roots)
            yield from ((device, DEVICE_RIGHTS) for device in STANDARD_DEVICES)
            yield SHARED_MEMORY, READ_RIGHTS | WRITE_RIGHTS
        case PermissionMode.READ_ONLY:
            yield from ((root, READ_RIGHTS) for root in plan.writable_roots)
            yield SHARED_MEMORY, READ_RIGHTS
        case PermissionMode.UNCONFINED:
            raise ConfigError("an unconfined plan has no rules.")
        case _:
            assert_never(plan.mode)


TERMINAL_RIGHTS = READ_FILE | WRITE_FILE | IOCTL_DEV
"""What a program is left with on its own terminal, and loses on every other."""


def terminal_rules(terminal: str, list_names: Callable[[str], Iterable[str]]) -> tuple[Rule, ...]:
    """Return the grants of a second domain that closes every terminal but this one.

    It handles ``TERMINAL_RIGHTS`` and moves between folders alone; the first one does the rest.
    """
    grants = {"/": REFER, terminal: TERMINAL_RIGHTS}
    for path, rights in _reading({TERMINALS}, list_names):
        if rights != READ_DIR:
            grants[path] = TERMINAL_RIGHTS | REFER
    return tuple(Rule(path, rights) for path, rights in grants.items())


def _writing(root: str) -> int:
    """Return the rights on a writable root; a root among devices may be controlled, too."""
    rights = READ_RIGHTS | WRITE_RIGHTS
    return rights | IOCTL_DEV if contains(DEVICE_FOLDER, root) else rights


def _reading(
    closed: set[str], list_names: Callable[[str], Iterable[str]]
) -> Iterator[tuple[str, int]]:
    """Grant reading of everything but what is closed.

    A grant covers all that lies beneath, so what leads to a closed path cannot be granted itself:
    its other entries are, one by one, at each level. Listing stays allowed everywhere.
    """
    yield "/", READ_DIR
    levels = {level for path in closed for level in _levels_above(path)}
    for level in sorted(levels):
        if any(contains(path, level) for path in closed):
            continue
        for name in sorted(list_names(level)):
            entry = f"{level.rstrip('/')}/{name}"
            if entry not in levels and entry not in closed:
                yield entry, READ_FILE | EXECUTE


def _levels_above(path: str) -> Iterator[str]:
    """Yield every directory that leads to ``path``, from the root down."""
    yield "/"
    end = path.find("/", 1)
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)


def aliases(path: str, mounts: Iterable[Mount]) -> Iterator[str]:
    """Yield every place elsewhere where ``path``, or a part of it, can be seen by another mount.

    A mount beneath the path is a part of it, too.
    """
    mounts = tuple(mounts)
    for device, inner in _sources(path, mounts):
        for mount in mounts:
            if mount.device != device:
                continue
            seen = ""
            if contains(mount.root, inner):
                seen = _join(mount.point, inner[len(mount.root.rstrip("/")) :])
            elif contains(inner, mount.root):
                seen = mount.point
            if seen and not contains(path, seen):
                yield seen


def _sources(path: str, mounts: tuple[Mount, ...]) -> Iterator[tuple[str, str]]:
    """Yield what can be seen at a path and beneath: a device, and the folder on it."""
    covering = [mount for mount in mounts if contains(mount.point, path)]
    if covering:
        # Of mounts on one point, the last covers the others.
        own = max(reversed(covering), key=lambda mount: len(mount.point))
        yield own.device, _join(own.root, path[len(own.point.rstrip("/")) :])
    for mount in mounts:
        if mount.point != path and contains(path, mount.point):
            yield mount.device, mount.root


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts that ``/proc/self/mountinfo`` lists."""
    fields = [line.split(" ") for line in text.splitlines()]
    return tuple(Mount(line[2], _unescape(line[3]), _unescape(line[4])) for line in fields)


def _join(folder: str, rest: str) -> str:
    return f"{folder.rstrip('/')}{rest}" or "/"


def _unescape(path: str) -> str:
    """Undo the octal escapes of blank, tab, newline and backslash."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        path = path.replace("\\" + code, character)
    return path
