"""The probes of honesty against the environments of this installation."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import moorage
from moorage.testing.honesty import PROBES


@pytest.mark.needs("landlock")
@pytest.mark.parametrize("mode", ["standard", "unconfined"])
@pytest.mark.parametrize("probe", PROBES)
async def test_the_local_environment_is_honest(probe: str, mode: str, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    with anyio.fail_after(30):
        async with moorage.open_session(
            workspace=tmp_path / "workspace", home=tmp_path / "home", mode=mode
        ) as session:
            await PROBES[probe](session)
