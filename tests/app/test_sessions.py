"""What a user changes of saved sessions, and what goes with a session."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import moorage
from moorage.app.config import load
from moorage.app.environments import list_environments
from moorage.app.home import Home, find_home
from moorage.app.sessions import (
    configure_session,
    list_sessions,
    read_record,
    remove_session,
)
from moorage.errors import ConfigError, NotFound


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return find_home(tmp_path / "home")


@pytest.fixture
async def kept(home: Home, tmp_path: Path) -> str:
    """A session that was used and closed, with a full log."""
    (tmp_path / "workspace").mkdir()
    with anyio.fail_after(20):
        async with moorage.open_session(
            workspace=tmp_path / "workspace", home=home.configuration, name="build"
        ) as session:
            await session.run("yes line | head -c 300000", purpose="fill a log")
    return session.id


async def test_a_session_is_listed_with_its_calls(home: Home, kept: str) -> None:
    (summary,) = list_sessions(home)
    assert (summary.id, summary.name, summary.mode, summary.calls) == (kept, "build", "standard", 1)
    assert summary.updated_at >= summary.created_at
    assert [call.purpose for call in read_record(home, "build")] == ["fill a log"]


async def test_a_session_goes_with_its_record_and_full_logs(home: Home, kept: str) -> None:
    logs = list(home.worker_state.glob(f"*/{kept}/tool-results/shell-logs/*.log"))
    assert len(logs) == 1
    remove_session(home, kept)
    assert not list(home.worker_state.glob(f"*/{kept}"))
    assert list_sessions(home) == []
    with pytest.raises(NotFound):
        remove_session(home, kept)


async def test_a_damaged_session_can_be_removed(home: Home, kept: str) -> None:
    (home.sessions / kept / "selection.json").write_text("{")
    remove_session(home, kept)
    assert not (home.sessions / kept).exists()


async def test_a_grant_that_would_make_the_session_unusable_is_refused(
    home: Home, kept: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    changed = configure_session(home, kept, mode="read_only", add_writable_roots=[data])
    assert (changed.mode.value, changed.writable_roots) == ("read_only", (str(data),))
    for impossible in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigError) as caught:
            configure_session(home, kept, mode="standard", add_writable_roots=[impossible])
        assert caught.value.path == "writable_roots"
    data.rmdir()
    with pytest.raises(ConfigError, match="--not-writable"):
        configure_session(home, kept, mode="standard")
    narrowed = configure_session(home, kept, remove_writable_roots=[data])
    assert narrowed.writable_roots == ()


async def test_every_environment_is_listed_and_the_local_one_can_be_checked(
    home: Home, tmp_path: Path
) -> None:
    home.configuration.mkdir()
    (home.configuration / "config.json").write_text(
        '{"execution_environments": {"profiles": {"box": {"backend": "modal", "image": "i"}, '
        '"bad": {"backend": "docker"}}}}'
    )
    (tmp_path / "workspace").mkdir()
    local, box, bad = list_environments(load(home))
    assert (local.name, local.is_default, local.problem) == ("local", True, "")
    assert "no backend 'modal'" in box.problem
    assert "image" in bad.problem
