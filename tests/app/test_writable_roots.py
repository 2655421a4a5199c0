"""Where more folders can be made writable: on this machine, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moorage.app.application import SessionOptions, SessionPlan
from moorage.app.home import Home, find_home
from moorage.app.sessions import configure_session
from moorage.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a configured writable folder, and an environment that is not local."""
    home = find_home(tmp_path / "home")
    home.configuration.mkdir()
    document = {
        "execution_environments": {"profiles": {"box": {"backend": "docker", "image": "img"}}},
        "writable_roots": [str(tmp_path)],
    }
    (home.configuration / "config.json").write_text(json.dumps(document))
    return home


def plan(home: Home, environment: str, *roots: Path, **options) -> SessionPlan:
    return SessionPlan(
        SessionOptions(
            environment=environment, home=home.configuration, writable_roots=roots, **options
        )
    )


def test_the_configured_folders_are_those_of_local_sessions(home: Home, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    box = plan(home, "box")
    assert (box.selection.writable_roots, box.placement.writable_roots) == ((), ())
    (home.configuration / "config.json").write_text(
        json.dumps({"writable_roots": [str(workspace)]})
    )
    local = plan(home, "local", workspace=workspace)
    assert local.selection.writable_roots == (str(workspace),)


def test_no_folder_of_this_machine_is_writable_in_another_environment(
    home: Home, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="writable in the environment box") as caught:
        plan(home, "box", tmp_path)
    assert caught.value.path == "writable_roots"
    assert "host_workspace" in caught.value.hint
    assert not home.sessions.exists()


def test_a_session_elsewhere_is_granted_no_folder_later(home: Home, tmp_path: Path) -> None:
    box = plan(home, "box", name="box")
    box.keep()
    for act in (
        lambda: configure_session(home, "box", add_writable_roots=[tmp_path]),
        lambda: box.regrant(box.selection, None, [tmp_path]),
    ):
        with pytest.raises(ConfigError, match="writable in the environment box"):
            act()
