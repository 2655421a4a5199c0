"""Sessions whose environment is one of the examples, opened as a user would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

import moorage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

OpenExample = Callable[..., AbstractAsyncContextManager[moorage.Session]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def open_example(tmp_path: Path, workspace: Path) -> OpenExample:
    """Write a profile for a command line and open a session in it."""
    home = tmp_path / "home"

    @asynccontextmanager
    async def make(
        *command: str, mode: str | None = None, session_id: str | None = None, **fields: object
    ) -> AsyncIterator[moorage.Session]:
        home.mkdir(exist_ok=True)
        profile = {"backend": "command", "workspace": str(workspace), "command": command} | fields
        environments = {"profiles": {"example": profile}}
        config = json.dumps({"execution_environments": environments})
        (home / "config.json").write_text(config)
        chosen = {"session_id": session_id} if session_id else {"environment": "example"}
        with anyio.fail_after(40):
            async with moorage.open_session(**chosen, mode=mode, home=home) as session:
                yield session

    return make


@pytest.fixture
def example() -> Callable[[str], str]:
    """Return the path of a program of the examples."""
    return lambda name: str(EXAMPLES / name)
