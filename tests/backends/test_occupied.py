from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from moorage.backends.backend import Placement
from moorage.backends.occupied import (
    OccupationLimits,
    is_occupied,
    leave,
    note_of,
    occupy,
    vacant,
)
from moorage.backends.profile import Profile
from moorage.errors import BackendUnavailable
from moorage.policy.permission import PermissionMode

BOX = Profile(backend="docker", image="img", persistent=True)
SOON = OccupationLimits(wait_seconds=0.05, retry_seconds=0.01)

HOLD = """
import sys
import anyio, msgspec
from moorage.backends.backend import Placement
from moorage.backends.occupied import occupy
placement = msgspec.json.decode(
    sys.argv[1], type=Placement, dec_hook=lambda kind, text: kind(text)
)
anyio.run(occupy, placement)
print("held", flush=True)
sys.stdin.read()
"""


def placement(folder: Path, session: str = "s-1") -> Placement:
    return Placement(
        identity="moorage-x",
        session=session,
        profile=BOX,
        workspace="/workspace",
        mode=PermissionMode.STANDARD,
        worker_state=folder / "worker",
        host_state=folder / "moorage-x",
    )


async def test_an_environment_is_used_as_long_as_one_host_uses_it(tmp_path: Path) -> None:
    place = placement(tmp_path)
    assert not is_occupied(place.host_state)
    first, second = await occupy(place), await occupy(placement(tmp_path, "s-2"))
    leave(first)
    assert is_occupied(place.host_state)
    leave(second)
    assert not is_occupied(place.host_state)
    note = note_of(place.host_state)
    assert note is not None
    assert (note.session, note.profile, note.is_retained) == ("s-2", BOX, True)


async def test_nobody_begins_to_use_what_is_being_removed(tmp_path: Path) -> None:
    place = placement(tmp_path)
    leave(await occupy(place))
    with vacant(place.host_state) as is_vacant:
        assert is_vacant
        with pytest.raises(BackendUnavailable, match="has been removing"):
            await occupy(place, SOON)
        shutil.rmtree(place.host_state)
    # It begins anew, and not on the file that is gone.
    descriptor = await occupy(place, SOON)
    assert is_occupied(place.host_state)
    leave(descriptor)


def test_a_host_that_is_killed_uses_nothing_any_more(tmp_path: Path) -> None:
    place = placement(tmp_path)
    command = [sys.executable, "-c", HOLD, msgspec.json.encode(place, enc_hook=str)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"held\n"
        assert is_occupied(place.host_state)
        host.kill()
        host.wait(timeout=20)
    assert not is_occupied(place.host_state)
    assert note_of(place.host_state) is not None


def test_what_is_not_there_is_not_used_and_a_damaged_note_tells_nothing(tmp_path: Path) -> None:
    with vacant(tmp_path / "absent") as is_vacant:
        assert is_vacant
    assert not (tmp_path / "absent").exists()
    assert note_of(tmp_path) is None
    (tmp_path / "open").write_bytes(b"{")
    assert note_of(tmp_path) is None
    os.unlink(tmp_path / "open")
    assert not is_occupied(tmp_path)
