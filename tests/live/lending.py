"""One service for all processes of a test run: the first starts it, and the last ends it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from tests.conftest import TEST_CACHE

PLACE = Path("/tmp")  # noqa: S108 - the folders are private, and the path of a socket must be short
PREFIX = "moorage-live-"

State = dict[str, Any]


@contextmanager
def lent(
    name: str, run: str, start: Callable[[Path], State], end: Callable[[Path, State], None]
) -> Iterator[State]:
    """Lend the service ``name`` of the test run ``run``: what ``start`` has told about it.

    Locks and not numbers say who uses it, so that a user who was killed counts no more. What a
    killed run has left is ended by the next one.
    """
    folder = PLACE / f"{PREFIX}{name}-{run[:8]}"
    with ExitStack() as use:
        with _gate(name):
            _end_what_is_left(name, end)
            folder.mkdir(mode=0o711, exist_ok=True)
            users = use.enter_context((folder / "users").open("w"))
            state = _state(folder)
            if state is None:
                state = _started(folder, start, end)
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield state
        finally:
            with _gate(name):
                if _is_last(users):
                    _end(folder, end)


def _started(
    folder: Path, start: Callable[[Path], State], end: Callable[[Path, State], None]
) -> State:
    try:
        state = start(folder)
        (folder / "state.json").write_text(json.dumps(state))
    except BaseException:
        end(folder, {})
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return state


def _end(folder: Path, end: Callable[[Path, State], None]) -> None:
    try:
        end(folder, _state(folder) or {})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_what_is_left(name: str, end: Callable[[Path, State], None]) -> None:
    for folder in PLACE.glob(f"{PREFIX}{name}-????????"):
        # What someone else has made is not ours to end.
        if folder.stat().st_uid == os.geteuid():
            with (folder / "users").open("a") as users:
                if _is_last(users):
                    _end(folder, end)


def _state(folder: Path) -> State | None:
    with suppress(FileNotFoundError):
        state: State = json.loads((folder / "state.json").read_text())
        return state
    return None


def _is_last(users: TextIO) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _gate(name: str) -> Iterator[None]:
    """Let one process at a time start and end services of this name, on the whole machine."""
    TEST_CACHE.mkdir(parents=True, exist_ok=True)
    with (TEST_CACHE / f"live-{name}.lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield
