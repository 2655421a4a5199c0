from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

import moorage

Opener = Callable[..., AbstractAsyncContextManager[moorage.Session]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def open_here(workspace: Path, home: Path) -> Opener:
    """Open sessions in this test's own workspace and home."""

    def open_one(**options: Any) -> AbstractAsyncContextManager[moorage.Session]:
        return moorage.open_session(**({"workspace": workspace, "home": home} | options))

    return open_one


@pytest.fixture
async def session(open_here: Opener) -> AsyncIterator[moorage.Session]:
    with anyio.fail_after(50):
        async with open_here() as opened:
            yield opened
