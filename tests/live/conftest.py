"""Real services: started by the tests, on private sockets and loopback, and stopped by them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import APPTAINER, APPTAINER_IMAGE
from tests.live.engine import WORKER_IMAGE, DockerEngine
from tests.live.services import *  # noqa: F403 - its fixtures
from tests.live.ssh_server import SshServer

import moorage
from moorage.backends.bundle import WorkerBundle

Opener = Callable[..., AbstractAsyncContextManager[moorage.Session]]


@pytest.fixture
def engine(running_engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> DockerEngine:
    """Have Docker mean the engine of the tests."""
    monkeypatch.setenv("DOCKER_HOST", running_engine.host)
    return running_engine


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def open_there(
    running_ssh_server: SshServer,
    home: Path,
    portable_worker: WorkerBundle,
    monkeypatch: pytest.MonkeyPatch,
) -> Opener:
    """Open sessions in an SSH profile."""
    monkeypatch.setenv("MOORAGE_WORKER_BUNDLE", str(portable_worker.archive))

    def open_one(
        profile: dict[str, Any] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[moorage.Session]:
        chosen = running_ssh_server.profile() | (profile or {})
        document = {"execution_environments": {"default": "there", "profiles": {"there": chosen}}}
        (home / "config.json").write_text(json.dumps(document))
        return moorage.open_session(home=home, **options)

    return open_one


@pytest.fixture
def open_image(
    home: Path, portable_worker: WorkerBundle, monkeypatch: pytest.MonkeyPatch
) -> Opener:
    """Open sessions in an Apptainer profile."""
    monkeypatch.setenv("MOORAGE_WORKER_BUNDLE", str(portable_worker.archive))
    monkeypatch.setenv("PATH", f"{APPTAINER.parent}:{os.environ['PATH']}")

    def open_one(
        profile: dict[str, Any] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[moorage.Session]:
        chosen = {"backend": "singularity", "image": str(APPTAINER_IMAGE)} | (profile or {})
        document = {"execution_environments": {"default": "box", "profiles": {"box": chosen}}}
        (home / "config.json").write_text(json.dumps(document))
        return moorage.open_session(home=home, **options)

    return open_one


@pytest.fixture
def open_box(engine: DockerEngine, home: Path) -> Iterator[Opener]:
    """Open sessions in a Docker profile; what they leave is removed at the end."""

    def open_one(
        profile: dict[str, Any] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[moorage.Session]:
        chosen = {"backend": "docker", "image": WORKER_IMAGE, "network": "none"} | (profile or {})
        document = {"execution_environments": {"default": "box", "profiles": {"box": chosen}}}
        (home / "config.json").write_text(json.dumps(document))
        return moorage.open_session(home=home, **options)

    yield open_one
    left = []
    found = engine.said("ps", "--all", '--format={{.Names}} {{.Label "moorage.state"}}')
    for line in found.splitlines():
        name, _, state = line.partition(" ")
        if state.startswith(str(home)):
            left.append(name)
    if left:
        engine.run("rm", "--force", "--volumes", *left)
