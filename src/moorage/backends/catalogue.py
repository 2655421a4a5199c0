"""The backends by name; a backend's module is imported when it is chosen."""

from __future__ import annotations

import importlib

from moorage.backends.backend import Backend
from moorage.errors import BackendUnavailable

_MODULES = {
    "local": "moorage.backends.local",
    "command": "moorage.backends.command",
    "docker": "moorage.backends.docker",
    "ssh": "moorage.backends.ssh",
    "singularity": "moorage.backends.apptainer",
}


def backend_names() -> tuple[str, ...]:
    """Return the names of the backends that this installation has."""
    return tuple(_MODULES)


def load_backend(name: str) -> Backend:
    """Return the backend called ``name``.

    Raises:
        BackendUnavailable: this installation does not have it.
    """
    if name not in _MODULES:
        known = ", ".join(_MODULES)
        raise BackendUnavailable(
            f"this version of Moorage has no backend {name!r}; it has {known}.",
            hint="Choose another environment; nothing runs locally in its place.",
        )
    backend: Backend = importlib.import_module(_MODULES[name]).BACKEND
    return backend
