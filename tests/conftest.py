"""What every test may rely on: one event loop, and services that are there or named as missing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import pytest

from moorage.backends.bundle import WorkerBundle, find_bundle
from moorage.backends.ending import end_worker

# Made by scripts/install-test-services, which needs some minutes the first time.
TEST_CACHE = Path(os.environ.get("MOORAGE_TEST_CACHE") or Path.home() / ".cache" / "moorage-tests")
APPTAINER = TEST_CACHE / "apptainer" / "usr" / "bin" / "apptainer"
APPTAINER_IMAGE = TEST_CACHE / "bookworm.sif"

INSTALL_HINT = "scripts/install-test-services installs what the tests need"


def _has_landlock() -> bool:
    """Return whether the kernel confines as Moorage needs it: Landlock ABI 3 or newer."""
    from moorage.confine.landlock import abi  # noqa: PLC0415 - only the tests that ask pay for it

    return abi() >= 3


def _has_signal_scope() -> bool:
    """Return whether the kernel can keep signals inside: Landlock ABI 6 or newer."""
    from moorage.confine.landlock import abi  # noqa: PLC0415 - only the tests that ask pay for it

    return abi() >= 6


def _has_command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as loopback:
            loopback.bind(("::1", 0))
    except OSError:
        return False
    return True


def _succeeds(*command: str) -> Callable[[], bool]:
    """Return what tells whether a program not only is there, but may do its work here."""

    @lru_cache(maxsize=1)
    def does_succeed() -> bool:
        if shutil.which(command[0]) is None:
            return False
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as program:
            return program.wait(timeout=20) == 0

    return does_succeed


# What can be had on any machine that runs the whole suite; missing under CI is a failure.
SERVICES: Mapping[str, Callable[[], bool]] = {
    "bash-static": _has_command("bash-static"),
    "busybox": _has_command("busybox"),
    "apptainer": lambda: APPTAINER.is_file() and APPTAINER_IMAGE.is_file(),
    # What images are made of; the stamp is the last thing that the script writes.
    "base systems": (TEST_CACHE / "base-systems.made").is_file,
    "bwrap": _succeeds("bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"),
    "dockerd": _has_command("dockerd"),
    "git": _has_command("git"),
    "landlock": _has_landlock,
    # For root with CAP_SYS_ADMIN; a test that mounts also needs "root". Nothing of this one stays.
    "mounts": _succeeds("unshare", "--mount", "mount", "-t", "tmpfs", "moorage-test", "/mnt"),
    "node": _has_command("node"),
    "rg": _has_command("rg"),
    "sshd": _has_command("sshd"),
    # The portable worker is built from this one.
    "system python": _has_command("/usr/bin/python3.11"),
}
# What a machine is or is not; the other case has tests of its own.
CIRCUMSTANCES: Mapping[str, Callable[[], bool]] = {
    "ipv6": _has_ipv6,
    "not root": lambda: os.geteuid() != 0,
    "root": lambda: os.geteuid() == 0,
    "signal scope": _has_signal_scope,
}


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run every async test on asyncio, the loop that Moorage is built on."""
    return "asyncio"


@pytest.fixture(scope="session")
def need() -> Callable[[str], None]:
    """Let a fixture ask for a service, as ``@pytest.mark.needs`` does for a test."""
    return _check_need


@pytest.fixture(scope="session")
def portable_worker() -> WorkerBundle:
    """Return the portable worker of these very sources; it is built when they have changed."""
    import worker_bundle  # noqa: PLC0415 - only the tests that ask pay for it

    _check_need("system python")
    return find_bundle({"MOORAGE_WORKER_BUNDLE": str(worker_bundle.built())})


@pytest.fixture(autouse=True)
def end_staying_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """End every worker that a test's sessions have left behind in its own folder."""
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    for home in ("*", "*/*") if folder is not None else ():
        for worker in folder.glob(f"{home}/state/sessions/*/worker"):
            end_worker(worker)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Honour ``@pytest.mark.needs("rg")``: a missing service skips; under ``CI=true`` it fails."""
    for marker in item.iter_markers("needs"):
        for need in marker.args:
            _check_need(need)


def _check_need(need: str) -> None:
    if need in CIRCUMSTANCES:
        if not CIRCUMSTANCES[need]():
            pytest.skip(f"runs only where the machine is: {need}")
    elif need not in SERVICES:
        known = ", ".join([*SERVICES, *CIRCUMSTANCES])
        raise pytest.UsageError(f"nothing is known about {need!r}; known needs: {known}")
    elif not SERVICES[need]():
        reason = f"this machine has no {need}; {INSTALL_HINT}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{reason} (a skip under CI=true is a failure)", pytrace=False)
        pytest.skip(reason)
