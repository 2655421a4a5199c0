"""A Docker engine of the tests' own: private socket, data, network and images; shared by a run."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import moorage

START_SECONDS = 60
STOP_SECONDS = 30
BUILD_SECONDS = 300
DEBOOTSTRAP_SECONDS = 900

CACHE = Path(os.environ.get("MOORAGE_TEST_CACHE") or Path.home() / ".cache" / "moorage-tests")
BASE_PACKAGES = "bash,ca-certificates,git,nodejs,python3,ripgrep"
BASE_IMAGE = "moorage-test/base"
WORKER_IMAGE = "moorage-test/worker"
BARE_IMAGE = "moorage-test/bare"

# What the worker imports; the base has the same Python, so compiled parts fit as well.
_LIBRARIES = ("anyio", "idna", "msgspec", "quickjs", "sniffio", "typing_extensions.py")
_DOCKERFILE = f"""
FROM {BASE_IMAGE}
COPY lib /opt/moorage
COPY moorage-worker /usr/local/bin/moorage-worker
RUN python3 -m compileall -q /opt/moorage && mkdir -p /workspace
"""
_PROGRAM = """#!/usr/bin/python3
import sys
sys.path.insert(0, "/opt/moorage")
from moorage.worker.__main__ import main
raise SystemExit(main())
"""


class DockerEngine:
    """An engine that runs, and how it is spoken to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder / 'socket'}"
        self.variables = {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": "0"}

    def run(self, *words: str, **options) -> subprocess.CompletedProcess[bytes]:
        """Give an order to the engine, and return how it went."""
        options = {"timeout": BUILD_SECONDS, "capture_output": True} | options
        ended = subprocess.run(["docker", *words], env=self.variables, check=False, **options)
        assert ended.returncode == 0, f"docker {words[0]}: {ended.stderr.decode()}"
        return ended

    def said(self, *words: str) -> str:
        return self.run(*words).stdout.decode().strip()

    def start(self) -> None:
        """Start the engine and return when it answers."""
        for name in ("data", "exec"):
            (self.folder / name).mkdir()
        options = [f"--data-root={self.folder / 'data'}", f"--exec-root={self.folder / 'exec'}"]
        options += [f"--pidfile={self.folder / 'pid'}", f"--host={self.host}"]
        # No test needs a network in a container, and none may touch that of the machine.
        options += ["--bridge=none", "--iptables=false", "--ip6tables=false"]
        with (self.folder / "log").open("wb") as log:
            # No child of ours: the one who stops it may be another process of the run.
            subprocess.run(
                ["setsid", "--fork", "dockerd", *options],
                stdout=log, stderr=log, check=True, timeout=START_SECONDS,
            )  # fmt: skip
        self._await_answer()

    def _await_answer(self) -> None:
        command = ["docker", "version", "--format", "{{.Server.Version}}"]
        for _ in range(START_SECONDS * 5):
            asked = subprocess.run(
                command, env=self.variables, capture_output=True, check=False, timeout=START_SECONDS
            )
            if asked.returncode == 0:
                return
            select.select((), (), (), 0.2)
        raise RuntimeError(f"dockerd did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """End the engine with all its containers, and remove what it kept."""
        with suppress(AssertionError, subprocess.SubprocessError):
            found = self.said("ps", "--all", "--quiet").split()
            if found:
                self.run("rm", "--force", "--volumes", *found)
        pid = int((self.folder / "pid").read_text())
        engine = os.pidfd_open(pid)
        signal.pidfd_send_signal(engine, signal.SIGTERM)
        if not select.select([engine], [], [], STOP_SECONDS)[0]:
            signal.pidfd_send_signal(engine, signal.SIGKILL)
            select.select([engine], [], [], STOP_SECONDS)
        os.close(engine)

    # Images.

    def make_images(self) -> None:
        """Make the images of the tests, of what is cached and of the checkout as it is."""
        with _base().open("rb") as archive:
            self.run("import", "-", BASE_IMAGE, stdin=archive)
        context = self.folder / "image"
        library = context / "lib"
        library.mkdir(parents=True)
        (context / "Dockerfile").write_text(_DOCKERFILE)
        program = context / "moorage-worker"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        installed = Path(sysconfig.get_path("purelib"))
        shutil.copytree(Path(moorage.__file__).parent, library / "moorage", ignore=_IGNORED)
        for name in _LIBRARIES:
            _copy(installed / name, library)
        for described in (*installed.glob("moorage-*.dist-info"), *installed.glob("_quickjs*")):
            _copy(described, library)
        self.run("build", "--quiet", "--tag", WORKER_IMAGE, str(context))
        with _bare(self.folder / "bare").open("rb") as archive:
            self.run("import", "-", BARE_IMAGE, stdin=archive)


_IGNORED = shutil.ignore_patterns("__pycache__")


def _copy(source: Path, folder: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, folder / source.name, ignore=_IGNORED)
    elif source.exists():
        shutil.copy2(source, folder)


def _base() -> Path:
    """Return the archive of a small Debian with Python, which is made once and kept."""
    archive = CACHE / "bookworm.tar"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            root = CACHE / f"bookworm-{os.getpid()}"
            order = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}"]
            try:
                subprocess.run(
                    [*order, "bookworm", str(root)],
                    check=True, stdout=sys.stderr, timeout=DEBOOTSTRAP_SECONDS,
                )  # fmt: skip
                staged = archive.with_suffix(".part")
                subprocess.run(
                    ["tar", "--directory", str(root), "--exclude=./dev/*", "-cf", str(staged), "."],
                    check=True, timeout=DEBOOTSTRAP_SECONDS,
                )  # fmt: skip
                staged.replace(archive)
            finally:
                shutil.rmtree(root, ignore_errors=True)
    return archive


def _bare(root: Path) -> Path:
    """Return the archive of a root with a shell and busybox, and no Python."""
    programs = root / "bin"
    programs.mkdir(parents=True)
    for folder in ("tmp", "proc", "dev", "etc", "root", "workspace"):
        (root / folder).mkdir()
    (root / "tmp").chmod(0o1777)
    shutil.copy2("/bin/busybox", programs / "busybox")
    shutil.copy2("/bin/bash-static", programs / "bash")
    listed = subprocess.run(["/bin/busybox", "--list"], capture_output=True, check=True, timeout=10)
    for name in listed.stdout.decode().split():
        if not (programs / name).exists():
            (programs / name).symlink_to("busybox")
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    archive = root.with_suffix(".tar")
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True, timeout=60)
    return archive


@contextmanager
def shared_engine(run: str) -> Iterator[DockerEngine]:
    """Lend the engine of this run: the first who needs it starts it, the last one stops it."""
    folder = Path("/tmp") / f"moorage-live-{run[:12]}"  # noqa: S108 - private, and a socket's path is short
    folder.mkdir(mode=0o700, exist_ok=True)
    engine = DockerEngine(folder)
    with _counted(folder) as count:
        if not count:
            engine.start()
            engine.make_images()
        (folder / "users").write_text(str(count + 1))
    try:
        yield engine
    finally:
        with _counted(folder) as count:
            (folder / "users").write_text(str(count - 1))
            if count == 1:
                engine.stop()
        if count == 1:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _counted(folder: Path) -> Iterator[int]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users = folder / "users"
        yield int(users.read_text()) if users.exists() else 0
