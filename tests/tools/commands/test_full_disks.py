"""Commands on a worker whose disk is really full: they run, and what could not be kept is said."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.tools.commands.conftest import CommandDesk

from moorage.errors import ProvisionError

pytestmark = pytest.mark.needs("landlock", "root", "mounts")


@pytest.fixture
def small_home(tmp_path: Path, make_small_disk: Any) -> Path:
    """The folder of all that a worker keeps, on a disk of 64 KiB; made before the desk."""
    home = tmp_path / "home"
    home.mkdir()
    make_small_disk(home)
    return home


def fill(home: Path) -> Path:
    filler = home / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


async def test_a_foreground_command_loses_its_log_and_not_its_result(
    small_home: Path, desk: CommandDesk
) -> None:
    text, envelope = await desk.bash("seq 100000; echo the end; exit 5")
    assert (envelope["outcome"], envelope["exit_code"]) == ("exited", 5)
    assert envelope["stdout"].endswith("the end\n")
    assert (
        envelope["full_log_error"] == "the full log could not be written: No space left on device"
    )
    assert text.endswith(f"Full log unavailable: {envelope['full_log_error']}\nExit code 5")
    assert desk.logs() == []
    fill(small_home)
    assert (await desk.bash("echo works"))[0] == "works"


async def test_a_background_command_loses_output_and_not_its_end(
    small_home: Path, desk: CommandDesk
) -> None:
    command = "echo before; seq 100000; echo lost; exit 5"
    started = await desk.call(command=command, run_in_background=True)
    assert started.structured_content is not None
    arguments = {"action": "read", "process_id": started.structured_content["id"]}
    status, found = "running", {}
    while status == "running":
        read = await desk.call(**arguments, offset_bytes=10**9, wait_ms=10_000)
        assert read.structured_content is not None
        found, status = read.structured_content, read.structured_content["status"]
    assert (status, found["exit_code"]) == ("failed", 5)
    assert "bytes of output could not be logged: No space left on device" in read.text
    head = await desk.call(**arguments, offset_bytes=0, max_bytes=10)
    assert head.structured_content is not None
    assert head.structured_content["output"] == "before\r\n1\r"


async def test_a_start_on_a_full_disk_is_one_sentence_and_nothing_runs(
    small_home: Path, desk: CommandDesk
) -> None:
    filler = fill(small_home)
    with pytest.raises(ProvisionError, match="No space left on device") as raised:
        await desk.call(command="touch ran", run_in_background=True)
    assert raised.value.message.endswith("Nothing ran.")
    assert "\n" not in raised.value.message
    assert list(desk.path.iterdir()) == []
    assert (await desk.call(action="list")).text == "No background processes in this session."
    filler.unlink()
    await desk.call(command="touch ran", run_in_background=True)
