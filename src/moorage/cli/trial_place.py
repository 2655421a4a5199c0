"""A place to try things in: a workspace and a home that are gone afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from moorage.app.home import find_home


class TrialPlace(NamedTuple):
    """Folders side by side; ``outside`` is where no tool and no command of a trial may write."""

    workspace: Path
    home: Path
    outside: Path


@contextmanager
def trial_place() -> Iterator[TrialPlace]:
    """Make a temporary place with the user's own configuration, and remove it at the end."""
    with TemporaryDirectory(prefix="moorage-trial-", ignore_cleanup_errors=True) as folder:
        place = TrialPlace(*(Path(folder).resolve() / name for name in TrialPlace._fields))
        for each in place:
            each.mkdir()
        # A machine may need its user's confinement provider for any command at all.
        for file in find_home().configuration.glob("config.*"):
            shutil.copy(file, place.home)
        yield place
