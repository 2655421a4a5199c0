"""The three Landlock system calls, the check of the ABI, and the refusal when it is too old."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import TYPE_CHECKING

from moorage.confine import plan as plans
from moorage.errors import ConfinementUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from moorage.confine.plan import Plan, Rule

# The same numbers on every architecture: these calls came after the tables were united.
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_OPENAT2 = 437

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_AT_FDCWD = -100
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04

Identity = tuple[int, int]
"""Device and inode of a granted path; ``(0, 0)`` when there was none."""

MISSING: Identity = (0, 0)

_NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES})

_libc = ctypes.CDLL(None, use_errno=True)


def _system_call(number: int, *arguments: object) -> int:
    """Make a system call; raises the error that the kernel gives."""
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def abi(system_call: Callable[..., int] = _system_call) -> int:
    """Return the Landlock ABI of this kernel; 0 when it is missing or switched off."""
    try:
        return system_call(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.EOPNOTSUPP}:
            return 0
        raise


def require(found_abi: int) -> None:
    """Return when this ABI can enforce a restricted mode.

    Raises:
        ConfinementUnavailable: it cannot; the hint says what helps.
    """
    if found_abi >= plans.MINIMUM_ABI:
        return
    found = (
        f"this kernel has Landlock ABI {found_abi}, and {plans.MINIMUM_ABI} is the first that "
        "protects whole files"
        if found_abi > 0
        else "this kernel has no Landlock, or it is switched off"
    )
    raise ConfinementUnavailable(
        f"Commands cannot be confined: {found}. Nothing ran.",
        hint="What helps: Linux 6.2 or newer with landlock in its lsm= list, or a confinement "
        "provider (such as bubblewrap) in the user's configuration.",
    )


def restrict(plan: Plan, rules: Iterable[Rule], *, found_abi: int) -> tuple[Identity, ...]:
    """Confine this process and all its future children for good; no-new-privileges must be set.

    Returns the identity of each of the plan's granted paths, as the kernel holds it.

    Raises:
        ConfinementUnavailable: the ABI is too old.
        OSError: the kernel refused.
    """
    require(found_abi)
    handled = plans.handled_rights(found_abi)
    ruleset = _create_ruleset(handled, plans.handled_scopes(found_abi), found_abi)
    identities: dict[str, Identity] = {}
    try:
        for rule in rules:
            identities[rule.path] = _add(ruleset, rule.path, rule.rights & handled)
        _system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return tuple(identities[path] for path in plan.granted_paths)


def restrict_signals(found_abi: int) -> None:
    """Keep the signals of this process and its future children inside, and forbid nothing else.

    No-new-privileges must be set, and the ABI be one that has the scope.

    Raises:
        OSError: the kernel refused.
    """
    # Every domain denies moves between folders unless it grants them.
    ruleset = _create_ruleset(plans.REFER, plans.SCOPE_SIGNAL, found_abi)
    try:
        _add(ruleset, "/", plans.REFER)
        _system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def restrict_to_terminal(
    terminal: str, held: int, list_names: Callable[[str], Iterable[str]], found_abi: int
) -> None:
    """Close every terminal but one to this process and its children.

    ``held`` is that terminal, open: whatever else stands at its path is granted nothing.

    Raises:
        OSError: the kernel refused.
    """
    handled = (plans.TERMINAL_RIGHTS | plans.REFER) & plans.handled_rights(found_abi)
    found = os.fstat(held)
    ruleset = _create_ruleset(handled, 0, found_abi)
    try:
        for rule in plans.terminal_rules(terminal, list_names):
            if rule.path != terminal or identity(terminal) == (found.st_dev, found.st_ino):
                _add(ruleset, rule.path, rule.rights & handled)
        _system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def identity(path: str) -> Identity:
    """Return what stands at ``path`` now; a symlink counts as nothing, for it is never granted."""
    try:
        found = os.lstat(path)
    except OSError:
        return MISSING
    return MISSING if stat.S_ISLNK(found.st_mode) else (found.st_dev, found.st_ino)


def _create_ruleset(handled: int, scopes: int, found_abi: int) -> int:
    # The structure grew with the ABI, and an older kernel refuses the longer one.
    attributes = struct.pack("=QQQ", handled, 0, scopes)
    size = 24 if found_abi >= 6 else 8
    return _system_call(_CREATE_RULESET, attributes, size, 0)


def _add(ruleset: int, path: str, rights: int) -> Identity:
    """Add one grant; what is missing, or reached through a symlink, is granted nothing.

    A symlink is never followed: a command could have planted it to be granted what it leads to.
    """
    try:
        target = _open_without_symlinks(path)
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return MISSING
        raise
    try:
        found = os.fstat(target)
        if stat.S_ISLNK(found.st_mode):
            return MISSING
        if not stat.S_ISDIR(found.st_mode):
            rights &= plans.FILE_RIGHTS
        if rights:
            beneath = struct.pack("=Qi", rights, target)
            _system_call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, beneath, 0)
        return found.st_dev, found.st_ino
    finally:
        os.close(target)


def _open_without_symlinks(path: str) -> int:
    how = struct.pack(
        "=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    )
    return _system_call(_OPENAT2, _AT_FDCWD, os.fsencode(path), how, len(how))
