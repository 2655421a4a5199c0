"""Moorage installed where its own commands may write: nothing of it could be trusted any more."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import anyio
import pytest

import moorage
from moorage.errors import ConfigError

PACKAGE = Path(moorage.__file__).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.mark.parametrize("workspace", [PACKAGE.parent, PACKAGE, PACKAGE / "confine"])
async def test_no_standard_session_opens_around_or_inside_the_package(
    workspace: Path, home: Path
) -> None:
    with pytest.raises(ConfigError, match="own code is loaded from"):
        async with moorage.open_session(workspace=workspace, home=home):
            pass


async def test_no_further_root_may_hold_it_either(tmp_path: Path, home: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(ConfigError, match=r"writable_roots: .* loaded from"):
        async with moorage.open_session(workspace=work, home=home, writable_roots=[sys.prefix]):
            pass


@pytest.mark.needs("landlock")
async def test_read_only_is_fine_there_and_stays_so(home: Path) -> None:
    with anyio.fail_after(30):
        async with moorage.open_session(workspace=PACKAGE, home=home, mode="read_only") as session:
            assert (await session.run("ls errors.py")).stdout == "errors.py\n"
            with pytest.raises(ConfigError, match="could rewrite what confines them"):
                await session.grant(mode="standard")


@pytest.mark.needs("landlock")
async def test_a_virtual_environment_in_the_workspace_says_what_to_do_instead(
    tmp_path: Path, home: Path
) -> None:
    project = tmp_path / "project"
    environment = project / ".venv"
    venv.create(environment, symlinks=True)
    [site] = environment.glob("lib/python*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    # Installed there, as a file of paths: what counts is where Python looks first.
    (site / "all.pth").write_text("\n".join([*ours, str(PACKAGE.parent)]))
    program = [str(environment / "bin/python"), "-P", "-m", "moorage.cli", "run"]
    variables = {**os.environ, "MOORAGE_HOME": str(home)}
    command = [*program, "--workspace", str(project)]
    with anyio.fail_after(30):
        refused = await anyio.run_process([*command, "--", "true"], env=variables, check=False)
        reading = await anyio.run_process(
            [*command, "--mode", "read_only", "--", "echo", "read"], env=variables, check=False
        )
    assert refused.returncode == 125, refused.stderr
    assert b"Moorage's own code is loaded from" in refused.stderr
    assert b"uv tool install --link-mode copy moorage" in refused.stderr
    assert (reading.returncode, reading.stdout) == (0, b"read\n")


@pytest.mark.needs("landlock")
async def test_a_folder_that_the_installation_adds_to_the_path_counts_as_well(
    tmp_path: Path, home: Path
) -> None:
    variables = {**os.environ, "MOORAGE_HOME": str(home), "PYTHONPATH": f"{tmp_path}/src"}
    (tmp_path / "src").mkdir()
    command = [sys.executable, "-m", "moorage.cli", "run", "--workspace", str(tmp_path / "src")]
    with anyio.fail_after(30):
        refused = await anyio.run_process([*command, "--", "true"], env=variables, check=False)
    assert refused.returncode == 125, refused.stderr
    assert b"PYTHONPATH names" in refused.stderr
