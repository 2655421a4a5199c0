"""Sessions in real Apptainer containers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.live.conftest import Opener

from moorage.backends.apptainer import HOME
from moorage.errors import BackendUnavailable, ProvisionError, RetainedStateMissing
from moorage.testing.honesty import PROBES

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.needs("apptainer"),
    pytest.mark.needs("landlock"),
]


def state_of(session) -> Path:
    return session._environment.placement.host_state


async def test_tools_act_in_the_container_and_its_folders_go_with_the_session(
    open_image: Opener,
) -> None:
    async with open_image() as session:
        ran = await session.run(
            "pwd; echo $HOME; cat /etc/debian_version; command -v moorage-worker"
        )
        assert ran.stdout.split()[:2] == ["/workspace", HOME]
        await session.write_file("a.txt", "one\n")
        assert (await session.run("cat a.txt")).stdout == "one\n"
        assert "a.txt" in (await session.grep("one")).content[0].text
        state = state_of(session)
        assert (state / "workspace" / "a.txt").read_text() == "one\n"
    assert not state.exists()


@pytest.mark.parametrize("probe", PROBES)
async def test_the_environment_is_honest(open_image: Opener, probe: str) -> None:
    async with open_image() as session:
        await PROBES[probe](session)


async def test_a_command_cannot_write_outside_the_workspace(open_image: Opener) -> None:
    async with open_image() as session:
        ended = await session.run("touch /etc/x || touch ~/x || echo refused")
        assert ended.stdout == "refused\n"
        assert ended.envelope["sandbox"]["enforcement"] == "full"


async def test_a_retained_workspace_is_found_again_and_its_processes_are_not(
    open_image: Opener,
) -> None:
    kept = {"persistent": True}
    async with open_image(kept, name="kept") as session:
        await session.write_file("a.txt", "kept\n")
        record = await session.processes.start("exec sleep 1000", lifecycle="managed")
    async with open_image(kept, session_id="kept") as session:
        assert (await session.read_file("a.txt")).text == "kept\n"
        assert (await session.processes.get(record.id)).is_terminal


async def test_a_retained_workspace_that_is_gone_is_an_error_and_nothing_takes_its_place(
    open_image: Opener,
) -> None:
    kept = {"persistent": True}
    async with open_image(kept, name="gone") as session:
        await session.run("true")
        workspace = state_of(session) / "workspace"
    shutil.rmtree(workspace)
    async with open_image(kept, session_id="gone") as session:
        with pytest.raises(RetainedStateMissing, match="is gone"):
            await session.run("true")
    assert not workspace.exists()


async def test_memory_and_network_are_those_of_the_profile(open_image: Opener) -> None:
    async with open_image({"memory_mb": 128, "network": "none"}) as session:
        hog = await session.run("python3 -c 'x = bytearray(400 * 2**20); print(len(x))'")
        assert hog.exit_code != 0
        assert hog.stdout == ""
    async with open_image({"network": "none"}) as session:
        devices = await session.run("grep -c : /proc/net/dev")
        assert devices.stdout == "1\n"


async def test_a_mount_for_reading_blocks_writes_in_every_mode(
    open_image: Opener, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "a").write_text("there\n")
    profile = {"host_workspace": str(mounted), "mount_read_only": True}
    async with open_image(profile, mode="unconfined") as session:
        ran = await session.run("cat a; touch b || echo refused")
        assert ran.stdout.split() == ["there", "refused"]


async def test_an_image_that_is_not_there_is_said(open_image: Opener, tmp_path: Path) -> None:
    async with open_image({"image": str(tmp_path / "none.sif")}) as session:
        with pytest.raises(ProvisionError, match=r"none\.sif cannot be used"):
            await session.run("true")


async def test_without_the_program_nothing_runs(
    open_image: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with open_image() as session:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(BackendUnavailable, match="neither apptainer nor singularity"):
            await session.run("true")
