"""Run a program as if the kernel knew no Landlock: its system calls answer ENOSYS.

A filter of the kernel does it, so the program and all its children meet what an old kernel says.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_ERRNO = 0x00050000
LANDLOCK_CALLS = (444, 446)  # the first and the last of three numbers in a row

LOAD_WORD, JUMP_GREATER, JUMP_AT_LEAST, RETURN = 0x20, 0x25, 0x35, 0x06


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def instructions() -> bytes:
    first, last = LANDLOCK_CALLS
    lines = (
        (LOAD_WORD, 0, 0, 0),
        (JUMP_AT_LEAST, 0, 2, first),
        (JUMP_GREATER, 1, 0, last),
        (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.ENOSYS),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(instructions())
    program = Program(len(text) // 8, ctypes.addressof(text))
    zero = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    mode = ctypes.c_ulong(SECCOMP_MODE_FILTER)
    if libc.prctl(PR_SET_SECCOMP, mode, ctypes.byref(program), zero, zero):
        raise OSError(ctypes.get_errno(), "seccomp")
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - an argument vector, no shell


if __name__ == "__main__":
    main()
