"""Tell whether bytes hold a short literal, at several times the speed of ``in`` for large data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_LARGE_BYTES = 4 * 1024
"""Below this the call into the C library costs more than it saves."""


def holds(data: bytes, literal: bytes) -> bool:
    """Return whether the literal stands somewhere in the data."""
    if len(data) < _LARGE_BYTES:
        return literal in data
    memmem = _memmem()
    if memmem is None:
        return literal in data
    return memmem(data, len(data), literal, len(literal)) is not None


@lru_cache(maxsize=1)
def _memmem() -> Any:
    """Return the C library's search, or ``None`` where it has none."""
    # Only output of some size needs it; the worker's start must not pay for the import.
    import ctypes  # noqa: PLC0415

    memmem = getattr(ctypes.CDLL(None), "memmem", None)
    if memmem is not None:
        memmem.restype = ctypes.c_void_p
        memmem.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return memmem
