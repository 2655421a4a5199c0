"""The services for tests of environments: a folder's conftest imports all fixtures from here.

A user can have the tests use services of their own, which then need neither root nor any set-up:
MOORAGE_E2E_IMAGE names a Docker image, MOORAGE_E2E_SIF an Apptainer image, and MOORAGE_E2E_SSH an
SSH profile in JSON. WUU_EXECUTION in place of MOORAGE is understood as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from tests.live.apptainer import Apptainer, own_apptainer
from tests.live.engine import BARE_IMAGE, BASE_IMAGE, DockerEngine, shared_engine
from tests.live.ssh_server import SshServer, server_of_profile
from tests.live.ssh_server import ssh_server as running_server

__all__ = [
    "apptainer",
    "bare_image",
    "docker_engine",
    "docker_image",
    "pytest_itemcollected",
    "running_engine",
    "running_ssh_server",
    "ssh_server",
]

Need = Callable[[str], None]

# The first test that needs a service waits for it to start, and maybe for what another run is
# starting or a killed one has left; the last test waits for its end.
PATIENT_SECONDS = 240
STARTED = frozenset({"docker_engine", "running_engine", "running_ssh_server", "ssh_server"})


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let the tests that may have to wait for a service take longer than others."""
    fixtures = getattr(item, "fixturenames", ())
    if STARTED.intersection(fixtures) and not item.get_closest_marker("timeout"):
        item.add_marker(pytest.mark.timeout(PATIENT_SECONDS))


def named_by_user(name: str) -> str:
    """Return what the user has told to test with, or nothing."""
    return os.environ.get(f"MOORAGE_E2E_{name}") or os.environ.get(f"WUU_EXECUTION_E2E_{name}", "")


@pytest.fixture(scope="session")
def running_engine(testrun_uid: str, need: Need) -> Iterator[DockerEngine]:
    """Lend the engine of this test run, with its images."""
    for service in ("root", "dockerd", "base systems"):
        need(service)
    with shared_engine(testrun_uid) as engine:
        yield engine


@pytest.fixture(scope="session")
def docker_engine(request: pytest.FixtureRequest) -> str:
    """Return the address for DOCKER_HOST; empty where the user's own engine is to be used."""
    if named_by_user("IMAGE"):
        return os.environ.get("DOCKER_HOST", "")
    return request.getfixturevalue("running_engine").host


@pytest.fixture(scope="session")
def docker_image(docker_engine: str) -> str:
    """Return the name of an image with bash, Git, ripgrep, Python and Node.js."""
    return named_by_user("IMAGE") or BASE_IMAGE


@pytest.fixture(scope="session")
def bare_image(running_engine: DockerEngine) -> str:
    """Return the name of an image with bash and busybox, and no Python."""
    return BARE_IMAGE


@pytest.fixture(scope="session")
def running_ssh_server(testrun_uid: str, need: Need) -> Iterator[SshServer]:
    """Lend the SSH server of this test run: an ordinary account, root, and a bare one."""
    for service in ("root", "sshd", "base systems"):
        need(service)
    with running_server(testrun_uid) as server:
        yield server


@pytest.fixture(scope="session")
def ssh_server(request: pytest.FixtureRequest) -> SshServer:
    """Return the server to test with: the user's, or our own."""
    if profile := named_by_user("SSH"):
        return server_of_profile(profile)
    return request.getfixturevalue("running_ssh_server")


@pytest.fixture(scope="session")
def apptainer(need: Need) -> Apptainer:
    """Return Apptainer, and an image of the base system for it."""
    if image := named_by_user("SIF"):
        return Apptainer("apptainer", image)
    need("root")
    need("apptainer")
    return own_apptainer()
