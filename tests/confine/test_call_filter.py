"""The filter of system calls: what it lets pass, run by hand and by the kernel."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterable

import pytest

from moorage.confine import call_filter
from moorage.confine.call_filter import ARCHITECTURES, Instruction, is_known, program

ALLOWED, REFUSED = 0x7FFF0000, 0x00050000 | errno.EPERM
EACH = [
    (machine, architecture)
    for machine, architectures in ARCHITECTURES.items()
    for architecture in architectures
]


def run(instructions: Iterable[Instruction], number: int, audit_name: int, *arguments: int) -> int:
    """Run a filter as the kernel would and return its verdict."""
    padded = (*arguments, *[0] * 6)[:6]
    data = struct.pack("<IIQ6Q", number, audit_name, 0, *padded)
    code, at, loaded = list(instructions), 0, 0
    while True:
        kind, when_equal, when_not, value = code[at]
        at += 1
        if kind == 0x06:
            return value
        if kind == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        else:
            at += when_equal if loaded == value else when_not


@pytest.mark.parametrize(("machine", "architecture"), EACH)
def test_only_a_new_limit_of_another_process_is_refused(machine, architecture) -> None:
    code, name = program(ARCHITECTURES[machine]), architecture.audit_name
    for number in architecture.set_limits:
        assert run(code, number, name, 1234, 0, 0x1000) == REFUSED
        assert run(code, number, name, 1234, 0, 0x100000000) == REFUSED
        assert run(code, number, name, 1 << 32 | 1234, 0, 0x1000) == REFUSED
        assert run(code, number, name, 1234, 0, 0, 0x1000) == ALLOWED  # it only looks
        assert run(code, number, name, 0, 0, 0x1000) == ALLOWED  # its own
        assert run(code, number + 1, name, 1234, 0, 0x1000) == ALLOWED
        assert run(code, number, 0x12345678, 1234, 0, 0x1000) == ALLOWED


@pytest.mark.parametrize(("machine", "architecture"), EACH)
def test_keyrings_are_refused_whatever_is_asked_of_them(machine, architecture) -> None:
    code, name = program(ARCHITECTURES[machine]), architecture.audit_name
    assert len(architecture.keyrings) == 3 * len(architecture.set_limits)
    for number in architecture.keyrings:
        assert run(code, number, name) == run(code, number, name, 11, 22) == REFUSED


def test_no_jump_is_longer_than_a_jump_can_be() -> None:
    for architectures in ARCHITECTURES.values():
        code = program(architectures)
        for at, (_, when_equal, when_not, _) in enumerate(code):
            assert max(when_equal, when_not) < min(256, len(code) - at)


def test_a_machine_that_is_not_known_is_told() -> None:
    assert not is_known("pdp11")
    assert not call_filter.filter_calls("pdp11")
    assert is_known("aarch64")


CHILD = """
import ctypes, errno, mmap, os, resource, struct, sys
from moorage.confine import call_filter, hardening
libc = ctypes.CDLL(None, use_errno=True)
hardening.forbid_new_privileges()
if not call_filter.filter_calls():
    sys.exit(0)
parent, core = os.getppid(), resource.RLIMIT_CORE
resource.setrlimit(core, (0, 0))
resource.prlimit(0, core, (0, 0))
resource.prlimit(parent, core)

def refused(number, *arguments):
    ctypes.set_errno(0)
    assert libc.syscall(number, *arguments) == -1 and ctypes.get_errno() == errno.EPERM, number

zero = ctypes.create_string_buffer(16)
native = call_filter.ARCHITECTURES[os.uname().machine][0]
for number in native.set_limits:
    refused(number, parent, core, zero, None)
for number in native.keyrings:
    refused(number, 0, 0, 0, 0, 0)
assert resource.prlimit(parent, core) == resource.prlimit(parent, core)
if os.uname().machine != "x86_64":
    sys.exit(0)

# The way in of 32-bit programs: int 0x80, with everything it needs in the low 4 GiB.
low = libc.mmap
low.restype, low.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
page = low(None, 4096, 7, 0x22 | 0x40, 2**64 - 1, 0)
code = (
    b"\\x53\\x89\\xf8\\x89\\xf3"  # push rbx; eax = number; ebx = first
    b"\\x87\\xd1"  # second is in edx, third in ecx: exchanged
    b"\\x31\\xf6\\xcd\\x80\\x5b\\xc3"  # esi = 0; int 0x80; pop rbx; ret
)
ctypes.memmove(page, code, len(code))
ctypes.memset(page + 2048, 0, 16)
enter = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 4)(page)
own = enter(340, 0, core, page + 2048)
if own == -errno.ENOSYS:
    sys.exit(0)  # this kernel runs no 32-bit programs
assert own == 0, own
assert enter(340, parent, core, page + 2048) == -errno.EPERM
assert enter(288, 0, 0, 0) == -errno.EPERM
"""


def test_the_kernel_takes_the_filter_and_keeps_to_it() -> None:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", CHILD], os.environ)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_filter_that_the_kernel_refuses_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(call_filter, "_MODE_FILTER", 99)
    with pytest.raises(OSError, match="Invalid argument"):
        call_filter.filter_calls("x86_64")
