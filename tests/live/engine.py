"""A Docker engine of the tests' own: private socket, data, network and images; shared by a run."""

from __future__ import annotations

import os
import secrets
import select
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.live.leftovers import (
    end_process,
    end_processes,
    is_in_control_group,
    mentions,
    remove_control_group,
    unmount_below,
)
from tests.live.lending import State, lent
from tests.live.places import BARE_ARCHIVE, DEBIAN_ARCHIVE

import moorage

START_SECONDS = 60
STOP_SECONDS = 30
BUILD_SECONDS = 300
LOOK_SECONDS = 20

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
        # Names of network devices have at most fifteen characters.
        self.bridge = f"mrg-{folder.name[-8:]}"
        self.control_group = folder.name
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
            (self.folder / name).mkdir(exist_ok=True)
        options = [f"--data-root={self.folder / 'data'}", f"--exec-root={self.folder / 'exec'}"]
        options += [f"--pidfile={self.folder / 'pid'}", f"--host={self.host}"]
        options += [f"--cgroup-parent=/{self.control_group}", *self._network_options()]
        with (self.folder / "log").open("ab") as log:
            # No child of ours: the one who stops it may be another process of the run.
            subprocess.run(
                ["setsid", "--fork", "dockerd", *options],
                stdout=log, stderr=log, check=True, timeout=START_SECONDS,
            )  # fmt: skip
        self._await_answer()

    def _network_options(self) -> list[str]:
        """Give containers a network that leads to this machine alone, where one can be made.

        The machine's rules for packets, and whether it forwards any, stay as they are.
        """
        untouched = ["--iptables=false", "--ip6tables=false", "--ip-forward=false"]
        if not Path("/sys/class/net", self.bridge).exists():
            # From the addresses that are kept for tests of networks.
            block = 1 + int(self.bridge[-2:], 16) % 254
            orders = (
                ["link", "add", self.bridge, "type", "bridge"],
                ["address", "add", f"198.18.{block}.1/24", "dev", self.bridge],
                ["link", "set", self.bridge, "up"],
            )
            if any(_gone_wrong("ip", *order) for order in orders):
                _gone_wrong("ip", "link", "delete", self.bridge)
                return ["--bridge=none", *untouched]
        return [f"--bridge={self.bridge}", "--ip-masq=false", *untouched]

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
        self.end()
        # What an engine that was killed has left: its companions and the containers themselves.
        end_processes(mentions(f"{self.folder}/exec/"))
        end_processes(is_in_control_group(self.control_group))
        unmount_below(self.folder)
        remove_control_group(self.control_group)
        _gone_wrong("ip", "link", "delete", self.bridge)

    def end(self) -> None:
        """End the engine alone; what it kept is found again when it is started anew."""
        with suppress(FileNotFoundError, ValueError):
            end_process(int((self.folder / "pid").read_text()), seconds=STOP_SECONDS)

    # Images.

    def make_images(self) -> None:
        """Make the images of the tests, of what is cached and of the checkout as it is."""
        with DEBIAN_ARCHIVE.open("rb") as archive:
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
        with BARE_ARCHIVE.open("rb") as archive:
            self.run("import", "-", BARE_IMAGE, stdin=archive)


_IGNORED = shutil.ignore_patterns("__pycache__")


def _copy(source: Path, folder: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, folder / source.name, ignore=_IGNORED)
    elif source.exists():
        shutil.copy2(source, folder)


def _gone_wrong(*command: str) -> bool:
    """Return whether a command could not do what it was told."""
    ended = subprocess.run(command, check=False, capture_output=True, timeout=LOOK_SECONDS)
    return ended.returncode != 0


@contextmanager
def shared_engine(run: str) -> Iterator[DockerEngine]:
    """Lend the engine of this run: the first who needs it starts it, the last one stops it."""
    with lent("docker", run, _start, _stop) as state:
        yield DockerEngine(Path(state["folder"]))


@contextmanager
def own_engine() -> Iterator[DockerEngine]:
    """Start an engine without images, for a test that ends engines; remove it with all it kept."""
    with lent("own-engine", secrets.token_hex(4), _start_empty, _stop) as state:
        yield DockerEngine(Path(state["folder"]))


def _start_empty(folder: Path) -> State:
    DockerEngine(folder).start()
    return {"folder": str(folder)}


def _start(folder: Path) -> State:
    engine = DockerEngine(folder)
    engine.start()
    engine.make_images()
    return {"folder": str(folder)}


def _stop(folder: Path, _state: State) -> None:
    DockerEngine(folder).stop()
