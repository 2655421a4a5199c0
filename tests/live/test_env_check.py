"""A check is a round trip through a real environment, and names the step that fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.conftest import APPTAINER
from tests.live.conftest import Opener
from tests.live.ssh_server import SshServer

from moorage.app.checking import check_environment
from moorage.app.home import find_home

pytestmark = [pytest.mark.needs("root"), pytest.mark.needs("landlock"), pytest.mark.timeout(180)]

USE = ["capabilities", "files", "command", "confinement", "close"]


async def steps(home: Path, name: str) -> list[str]:
    findings = await check_environment(find_home(home), name)
    assert [each.detail for each in findings if not each.is_fine] == []
    return [each.name for each in findings]


@pytest.mark.needs("dockerd")
async def test_docker_is_checked_from_the_engine_to_the_end(open_box: Opener, home: Path) -> None:
    open_box()
    told = await steps(home, "box")
    assert [name for name in told if name != "delivery"] == [
        "profile", "engine", "image", "worker", "container", "open", *USE,
    ]  # fmt: skip


@pytest.mark.needs("dockerd")
async def test_an_engine_that_is_down_is_the_step_that_fails(
    open_box: Opener, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_box()
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{home}/no-engine")
        *_, last = await check_environment(find_home(home), "box")
    assert (last.name, last.is_fine) == ("engine", False)
    assert "does not answer" in last.detail


@pytest.mark.needs("sshd")
async def test_another_machine_is_checked_from_the_login_to_the_end(
    open_there: Opener, home: Path
) -> None:
    open_there()
    told = await steps(home, "there")
    assert [name for name in told if name != "delivery"] == ["profile", "host", "open", *USE]


@pytest.mark.needs("sshd")
async def test_a_machine_that_cannot_be_reached_is_the_step_that_fails(
    running_ssh_server: SshServer, open_there: Opener, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "known").touch()
    open_there({"known_hosts_file": str(tmp_path / "known")})
    *_, last = await check_environment(find_home(home), "there")
    assert (last.name, last.is_fine) == ("host", False)
    assert "accept it there" in last.detail


@pytest.mark.needs("apptainer")
async def test_apptainer_is_checked_from_the_program_to_the_end(
    open_image: Opener, home: Path
) -> None:
    assert os.environ["PATH"].startswith(str(APPTAINER.parent))
    open_image()
    told = await steps(home, "box")
    assert told == ["profile", "engine", "first start", "image", "open", *USE]
