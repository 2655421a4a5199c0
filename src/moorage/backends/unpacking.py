"""The portable worker unpacked on this host, once, for environments that see the host's files."""

from __future__ import annotations

import io
import os
import secrets
import tarfile
from contextlib import suppress
from pathlib import Path

from moorage.backends.bundle import WorkerBundle
from moorage.confine.private_folders import make_private
from moorage.process.leftovers import remove_tree


def unpacked(bundle: WorkerBundle, folder: Path) -> Path:
    """Return the folder of this bundle below ``folder``, which appears as a whole or not at all.

    Raises:
        ProvisionError: the archive is damaged.
    """
    target = folder / bundle.sha256[:24]
    if target.is_dir():
        return target
    make_private(folder)
    staged = folder / f".{secrets.token_hex(6)}"
    try:
        with tarfile.open(fileobj=io.BytesIO(bundle.read_verified())) as archive:
            archive.extractall(staged, filter="tar")
        # Whoever was faster has the same.
        with suppress(OSError):
            os.rename(staged, target)
    finally:
        if staged.exists():
            remove_tree(staged)
    return target
