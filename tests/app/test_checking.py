"""A round trip through an environment tells every step, and where it stops."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

from moorage.app.checking import Finding, check_environment
from moorage.app.home import Home, find_home
from moorage.app.profiles import add_profile
from moorage.errors import NotFound


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = find_home(tmp_path / "home")
    home.configuration.mkdir()
    profiles = {
        "cloud": {"backend": "modal", "image": "i"},
        "absent": {"backend": "command", "command": ["/no/such/adapter"]},
        "mute": {"backend": "command", "command": ["false"]},
    }
    document = {"execution_environments": {"profiles": profiles}}
    (home.configuration / "config.json").write_text(json.dumps(document))
    return home


async def test_every_step_of_a_good_environment_is_told_with_its_time(
    home: Home, tmp_path: Path
) -> None:
    (tmp_path / "workspace").mkdir()
    told: list[Finding] = []
    with anyio.fail_after(30):
        findings = await check_environment(
            home, "local", workspace=tmp_path / "workspace", report=told.append
        )
    assert told == findings
    assert all(finding.is_fine for finding in findings)
    names = [finding.name for finding in findings]
    assert names == [
        "profile", "machine", "open", "capabilities", "files", "command", "confinement", "close",
    ]  # fmt: skip
    by_name = {finding.name: finding for finding in findings}
    assert by_name["confinement"].detail == "enforcement full"
    assert by_name["open"].milliseconds > 0


@pytest.mark.parametrize(
    ("environment", "step", "sentence"),
    [
        ("cloud", "open", "no backend 'modal'"),
        ("absent", "adapter", "/no/such/adapter"),
        ("mute", "open", ""),
    ],
)
async def test_the_first_step_that_fails_is_the_last_one(
    home: Home, environment: str, step: str, sentence: str
) -> None:
    with anyio.fail_after(30):
        *before, failed = await check_environment(home, environment)
    assert all(finding.is_fine for finding in before)
    assert (failed.name, failed.is_fine) == (step, False)
    assert sentence in failed.detail


async def test_an_adapter_need_not_offer_commands(home: Home) -> None:
    backend = Path(__file__).parents[2] / "examples" / "memory_backend" / "backend.py"
    add_profile(home, "memory", {"backend": "command", "command": [sys.executable, str(backend)]})
    with anyio.fail_after(30):
        findings = await check_environment(home, "memory")
    assert [finding.detail for finding in findings if not finding.is_fine] == []
    told = {finding.name: finding.detail for finding in findings}
    assert told["command"].startswith("not offered: ")
    assert "confinement" not in told


async def test_an_environment_that_nobody_configured_is_not_found(home: Home) -> None:
    with pytest.raises(NotFound):
        await check_environment(home, "bxo")
