"""A filter of the few system calls that reach beyond Landlock: others' limits, and keyrings.

Whoever has the same user may set the limits of a process, and that ends it as surely as a signal:
a limit of processor time with SIGKILL, one of open files or memory at its next need. A process may
set its own limits and look at those of others. The kernel's keyrings hold the user's tickets and
keys outside every file; they are closed altogether.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_RETURN_ERROR = 0x00050000
_RETURN_ALLOW = 0x7FFF0000

# Where the kernel puts what the filter looks at: number, architecture, then arguments of 8 bytes.
_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_ARGUMENTS_AT = 16

# Instructions of the classic packet filter.
_LOAD = 0x20
_JUMP_IF_EQUAL = 0x15
_RETURN = 0x06

Instruction = tuple[int, int, int, int]
"""Code, how many instructions to skip when equal and when not, and the value."""


class Architecture(NamedTuple):
    """How the kernel names an architecture, and the numbers of the filtered calls on it."""

    audit_name: int
    set_limits: tuple[int, ...]
    keyrings: tuple[int, ...]


# prlimit64; add_key, request_key, keyctl. The tables of newer architectures are the same.
_X86_64, _X32 = (302, 248, 249, 250), 0x40000000
_UNITED = (261, 217, 218, 219)


def _architecture(audit_name: int, *tables: tuple[int, ...]) -> Architecture:
    limits = tuple(table[0] for table in tables)
    return Architecture(audit_name, limits, tuple(each for table in tables for each in table[1:]))


ARCHITECTURES: dict[str, tuple[Architecture, ...]] = {
    "x86_64": (
        # The programs of x32 have the same name and a bit in their numbers.
        _architecture(0xC000003E, _X86_64, tuple(_X32 | number for number in _X86_64)),
        _architecture(0x40000003, (340, 286, 287, 288)),
    ),
    "aarch64": (
        _architecture(0xC00000B7, _UNITED),
        _architecture(0x40000028, (369, 309, 310, 311)),
    ),
    "riscv64": (_architecture(0xC00000F3, _UNITED), _architecture(0x400000F3, _UNITED)),
}
"""By machine, all little-endian: its own calls first, then those of its 32-bit programs."""

# Not the caller itself (0), and a new limit (a pointer that is not null): refused.
_LOOK_AT_LIMITS: tuple[Instruction, ...] = (
    (_LOAD, 0, 0, _ARGUMENTS_AT),
    (_JUMP_IF_EQUAL, 4, 0, 0),
    (_LOAD, 0, 0, _ARGUMENTS_AT + 2 * 8),
    (_JUMP_IF_EQUAL, 0, 3, 0),
    (_LOAD, 0, 0, _ARGUMENTS_AT + 2 * 8 + 4),
    (_JUMP_IF_EQUAL, 0, 1, 0),
    (_RETURN, 0, 0, _RETURN_ALLOW),
    (_RETURN, 0, 0, _RETURN_ERROR | errno.EPERM),
)


def is_known(machine: str = "") -> bool:
    """Return whether there is a filter for a machine, as ``uname`` names it; by default this."""
    return (machine or os.uname().machine) in ARCHITECTURES


def filter_calls(machine: str = "") -> bool:
    """Refuse the filtered calls to this process and all its future children, for good.

    No-new-privileges must be set. Returns ``False`` on a machine that the filter does not know.

    Raises:
        OSError: the kernel refused.
    """
    known = ARCHITECTURES.get(machine or os.uname().machine)
    if known is None:
        return False
    code = b"".join(struct.pack("=HBBI", *each) for each in program(known))
    # The structure that names them: their number, padding, and where they are.
    buffer = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(described), 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def program(architectures: tuple[Architecture, ...]) -> tuple[Instruction, ...]:
    """Return the filter: one part for each architecture, then the look at the arguments.

    What depends on no argument comes out the same for each number, which newer kernels keep: they
    run the filter for the filtered calls alone.
    """
    size = sum(4 + len(each.set_limits) + len(each.keyrings) for each in architectures)
    look, refuse = size + 1, size + len(_LOOK_AT_LIMITS)
    parts: list[Instruction] = []
    for audit_name, set_limits, keyrings in architectures:
        targets = [(number, look) for number in set_limits]
        targets += [(number, refuse) for number in keyrings]
        parts += [
            (_LOAD, 0, 0, _ARCHITECTURE_AT),
            (_JUMP_IF_EQUAL, 0, len(targets) + 2, audit_name),
            (_LOAD, 0, 0, _NUMBER_AT),
        ]
        for number, target in targets:
            parts.append((_JUMP_IF_EQUAL, target - len(parts) - 1, 0, number))
        parts.append((_RETURN, 0, 0, _RETURN_ALLOW))
    return (*parts, (_RETURN, 0, 0, _RETURN_ALLOW), *_LOOK_AT_LIMITS)
