"""Open a path below a held folder without following any symlink, in one step of the kernel.

Who swaps a folder for a symlink meanwhile gains nothing: the kernel refuses instead of leaving.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08

# Systems without O_PATH open for reading instead; that needs leave to read, nothing more.
PROBE_FLAGS: int = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
FOLDER_FLAGS: int = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


_OPEN_HOW = struct.Struct("=QQQ")  # flags, mode, resolve
_RESOLVE = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_long,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
)


def open_beneath(folder_fd: int, relative: str, flags: int) -> int:
    """Open ``relative`` (no ``..``) below ``folder_fd``; the caller closes the descriptor.

    Raises:
        OSError: with ``ELOOP`` when a component is a symlink, else as ``open`` does.
    """
    how = _OPEN_HOW.pack(flags | os.O_CLOEXEC, 0, _RESOLVE)
    while True:
        fd: int = _syscall(_SYS_OPENAT2, folder_fd, os.fsencode(relative), how, len(how))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code == errno.EINTR:
            continue
        if code in (errno.ENOSYS, errno.EPERM):
            # No such call here (an old filter of a container answers EPERM): walk instead.
            return walk_beneath(folder_fd, relative, flags)
        raise OSError(code, os.strerror(code), relative)


def walk_beneath(folder_fd: int, relative: str, flags: int) -> int:
    """Do what ``open_beneath`` does, one component at a time.

    Raises:
        OSError: with ``ELOOP`` when a component is a symlink, else as ``open`` does.
    """
    *folders, name = relative.split("/")
    current = os.dup(folder_fd)
    try:
        for folder in folders:
            below = _step(current, folder, FOLDER_FLAGS)
            os.close(current)
            current = below
        return _step(current, name, flags | os.O_CLOEXEC)
    finally:
        os.close(current)


def _step(folder_fd: int, name: str, flags: int) -> int:
    if name == "..":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder_fd)
    except NotADirectoryError:
        if _is_symlink(folder_fd, name):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise
    if stat.S_ISLNK(os.fstat(fd).st_mode):  # O_PATH opens the link itself
        os.close(fd)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return fd


def _is_symlink(folder_fd: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False
