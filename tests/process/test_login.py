from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from moorage.confine import landlock
from moorage.confine.nursery import Nursery
from moorage.confine.plan import Plan
from moorage.policy.permission import PermissionMode
from moorage.process import login
from moorage.process.supervisor import Supervisor

FREE = Plan(mode=PermissionMode.UNCONFINED)
CONFINED = Plan(mode=PermissionMode.READ_ONLY)


@pytest.fixture
def base(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIVEN": "1"}


def profile(base: dict[str, str], text: str) -> None:
    home = Path(base["HOME"])
    home.mkdir(exist_ok=True)
    (home / ".profile").write_text(text)


async def captured(
    nursery: Nursery, supervisor: Supervisor, base: dict[str, str], plan: Plan = FREE
) -> tuple[login.LoginCapture, login.Login]:
    capture = login.begin(nursery, base, Path(base["HOME"]).parent / "kept", plan=plan)
    with anyio.fail_after(5):
        return capture, await login.finish(capture, supervisor, seconds=4.0)


async def test_what_the_startup_files_set_is_found(
    nursery: Nursery, supervisor: Supervisor, base: dict[str, str]
) -> None:
    profile(base, "echo noise; echo more >&2; export ADDED='a b\nc=d'; hidden=1\n")
    _, found = await captured(nursery, supervisor, base)
    assert found.problem == ""
    assert (found.variables["ADDED"], found.variables["GIVEN"]) == ("a b\nc=d", "1")
    assert "hidden" not in found.variables


async def test_a_capture_is_kept_until_the_startup_files_or_variables_change(
    nursery: Nursery, supervisor: Supervisor, base: dict[str, str]
) -> None:
    profile(base, "export ADDED=1\n")
    first, _ = await captured(nursery, supervisor, base)
    again, found = await captured(nursery, supervisor, base)
    assert (first.found, again.found) == (None, found.variables)
    assert first.kept_in.stat().st_mode & 0o777 == 0o600
    profile(base, "export ADDED=22\n")
    changed, found = await captured(nursery, supervisor, base)
    assert (changed.found, found.variables["ADDED"]) == (None, "22")
    other, _ = await captured(nursery, supervisor, base | {"GIVEN": "2"})
    assert other.found is None


@pytest.mark.needs("landlock")
async def test_the_login_runs_confined(
    nursery: Nursery, supervisor: Supervisor, base: dict[str, str], tmp_path: Path
) -> None:
    profile(base, f"echo x > {tmp_path}/planted; export ADDED=1\n")
    _, found = await captured(nursery, supervisor, base, CONFINED)
    assert found.variables["ADDED"] == "1"
    assert not (tmp_path / "planted").exists()


async def test_a_login_that_never_ends_is_given_up(
    nursery: Nursery, supervisor: Supervisor, base: dict[str, str]
) -> None:
    profile(base, "export ADDED=1; sleep 1000\n")
    capture = login.begin(nursery, base, Path(base["HOME"]).parent / "kept", plan=FREE)
    with anyio.fail_after(5):
        found = await login.finish(capture, supervisor, seconds=0.01)
    assert "did not print its variables" in found.problem
    assert found.variables == base
    assert not capture.kept_in.exists()


async def test_a_login_that_fails_is_told(
    nursery: Nursery, supervisor: Supervisor, base: dict[str, str]
) -> None:
    profile(base, "exit 3\n")
    _, found = await captured(nursery, supervisor, base)
    assert "did not print its variables" in found.problem


async def test_without_landlock_the_workers_own_variables_serve(
    nursery: Nursery,
    supervisor: Supervisor,
    base: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    _, found = await captured(nursery, supervisor, base, CONFINED)
    assert "Landlock" in found.problem
    assert found.variables == base


async def test_a_login_that_nobody_takes_ends(
    nursery: Nursery, base: dict[str, str], tmp_path: Path
) -> None:
    profile(base, f"echo $$ > {tmp_path}/pid; sleep 1000\n")
    capture = login.begin(nursery, base, tmp_path / "kept", plan=FREE)
    with anyio.fail_after(5):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await anyio.lowlevel.checkpoint()
        capture.release()
        capture.release()
        pid = int((tmp_path / "pid").read_text())
        while Path(f"/proc/{pid}").exists():  # noqa: ASYNC240 - another process
            await anyio.lowlevel.checkpoint()
