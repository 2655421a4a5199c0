"""What keeps a launcher out of its children's reach, and root from undoing its confinement.

A launcher lives in the same Landlock domain as its children, so the kernel would let them attach to
it. Two things together prevent that: it is not dumpable, and nobody in the domain holds a
capability that overrides this.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct

from moorage.errors import ConfinementUnavailable

KEPT_CAPABILITIES = frozenset(
    {
        0,  # CHOWN
        1,  # DAC_OVERRIDE
        3,  # FOWNER
        4,  # FSETID
        5,  # KILL
        6,  # SETGID
        7,  # SETUID
        8,  # SETPCAP
        10,  # NET_BIND_SERVICE
        13,  # NET_RAW
    }
)
"""What root keeps: enough to build and install inside its roots, nothing that reaches outside."""

KEPT_MASK = sum(1 << capability for capability in KEPT_CAPABILITIES)

_PR_SET_NAME = 15
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522
# Effective, permitted and inheritable: the low 32 capabilities of each, then the high ones.
_CAPABILITY_SETS = struct.Struct("=6I")

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _control(option: int, *arguments: int) -> int:
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(option, *padded))


def become_subreaper() -> None:
    """Adopt every descendant whose parent ends, so that none is lost from sight."""
    _control(_PR_SET_CHILD_SUBREAPER, 1)


def set_name(name: str) -> None:
    """Set the name that process lists show; at most 15 bytes are kept."""
    _checked(_libc.prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode())))


def forbid_new_privileges() -> None:
    """Make set-user-id programs and file capabilities give nothing, for good."""
    _control(_PR_SET_NO_NEW_PRIVS, 1)


def forbid_inspection() -> None:
    """Make this process undumpable: its memory, descriptors and variables are its own."""
    _control(_PR_SET_DUMPABLE, 0)


def open_child_events() -> int:
    """Block SIGCHLD and return a descriptor that becomes readable when a child has ended."""
    signal.pthread_sigmask(signal.SIG_SETMASK, (signal.SIGCHLD,))
    mask = ctypes.create_string_buffer(128)
    _checked(_libc.sigemptyset(mask))
    _checked(_libc.sigaddset(mask, int(signal.SIGCHLD)))
    return _checked(_libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))


def drop_capabilities() -> None:
    """Keep only ``KEPT_CAPABILITIES``, at most, in every set of this process and its children.

    Raises:
        ConfinementUnavailable: a dangerous capability could not be dropped; nothing ran.
    """
    _control(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _limit_bounding_set()
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(_CAPABILITY_SETS.size)
    _checked(_libc.capget(header, held))
    effective, permitted, *_ = _CAPABILITY_SETS.unpack(held.raw)
    kept = _CAPABILITY_SETS.pack(effective & KEPT_MASK, permitted & KEPT_MASK, 0, 0, 0, 0)
    _checked(_libc.capset(header, kept))
    if capabilities_of("self")["permitted"] & ~KEPT_MASK:
        raise ConfinementUnavailable(
            "Root's capabilities could not be dropped, and root is not confined while it holds "
            "them. Nothing ran.",
            hint="What helps: start Moorage as an ordinary user.",
        )


def _limit_bounding_set() -> None:
    """Drop what nobody may ever regain.

    Without SETPCAP the kernel refuses, and then no-new-privileges holds the line alone.
    """
    for capability in range(64):
        try:
            if _control(_PR_CAPBSET_READ, capability) and capability not in KEPT_CAPABILITIES:
                _control(_PR_CAPBSET_DROP, capability)
        except OSError:
            return


def capabilities_of(process: str) -> dict[str, int]:
    """Return the capability sets of a process (its pid, or ``self``) as bit masks by name."""
    names = {
        b"CapInh": "inheritable",
        b"CapPrm": "permitted",
        b"CapEff": "effective",
        b"CapBnd": "bounding",
        b"CapAmb": "ambient",
    }
    with open(f"/proc/{process}/status", "rb") as status:
        pairs = [line.split(b":", 1) for line in status if line.startswith(b"Cap")]
    return {names[name]: int(value, 16) for name, value in pairs}
