"""Apptainer as the tests use it: its program, and an image of the base system."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import APPTAINER, APPTAINER_IMAGE
from tests.live.places import DEBIAN_ROOT


@dataclass(frozen=True)
class Apptainer:
    """A program and what it can be run with."""

    program: str
    image: str
    """A file in Apptainer's own format."""
    sandbox: str = ""
    """The same system as a folder; none when the user has named an image."""

    @property
    def search_path(self) -> str:
        """A PATH on which the program is found, under this name and as ``singularity``."""
        folder = str(Path(self.program).parent)
        return f"{folder}:{os.environ['PATH']}" if "/" in self.program else os.environ["PATH"]


def own_apptainer() -> Apptainer:
    """Return the one that scripts/install-test-services has unpacked."""
    return Apptainer(str(APPTAINER), str(APPTAINER_IMAGE), str(DEBIAN_ROOT))
