"""What a killed host left behind is found and removed, and nothing else is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.conftest import APPTAINER, APPTAINER_IMAGE
from tests.live.conftest import Opener
from tests.live.engine import BARE_IMAGE, WORKER_IMAGE, DockerEngine
from tests.live.ssh_server import SshServer

from moorage.app.home import Home, find_home
from moorage.app.pruning import Prunable, find_leftovers, remove_leftovers
from moorage.app.removing import remove_with_environment
from moorage.app.sessions import list_sessions
from moorage.backends.bundle import WorkerBundle
from moorage.backends.container import label_words, labels_of, owner
from moorage.errors import BackendUnavailable, NotFound, RetainedStateMissing

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.needs("landlock"),
    pytest.mark.timeout(180),
]

HOST = """
import sys
import anyio, moorage

async def main():
    async with moorage.open_session(home=sys.argv[1], name=sys.argv[2]) as session:
        await session.write_file("a.txt", "kept")
        print(session._environment.placement.identity, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


class KilledHost:
    """A host in a process of its own, which is killed in the middle of its work."""

    def __init__(self, home: Path, profile: dict[str, Any], name: str) -> None:
        document = {"execution_environments": {"default": "box", "profiles": {"box": profile}}}
        (home / "config.json").write_text(json.dumps(document))
        command = [sys.executable, "-c", HOST, str(home), name]
        self._program = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
        assert self._program.stdout is not None
        self.identity = self._program.stdout.readline().decode().strip()
        assert self.identity.startswith("moorage-")

    def kill(self) -> None:
        self._program.kill()
        self._program.communicate(timeout=30)

    def __enter__(self) -> KilledHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def box(**fields: Any) -> dict[str, Any]:
    return {"backend": "docker", "image": WORKER_IMAGE, "network": "none", **fields}


def found_by(home: Home, *retained: str, also: str = "") -> Prunable:
    """Return what is left over in a home, and ``also``; other tests use the same engine."""
    found = anyio.run(find_leftovers, home, retained)
    ours = {each.name for each in home.environments.glob("moorage-*")} | {also}
    mine = [
        each
        for each in found.leftovers
        if {each.identity, each.name} & (ours - {""}) or each.name.startswith(str(home.state))
    ]
    return msgspec.structs.replace(found, leftovers=mine)


def removed_by(home: Home, *retained: str, also: str = "") -> list[str]:
    """Return the problems of removing all that is left."""
    found = found_by(home, *retained, also=also)

    async def remove() -> list[str]:
        return [each.problem async for each in remove_leftovers(home, found.leftovers)]

    return [problem for problem in anyio.run(remove) if problem]


def containers(engine: DockerEngine) -> list[str]:
    return engine.said("ps", "--all", "--format={{.Names}}").split()


@pytest.fixture
def owned(home: Path) -> Home:
    return find_home(home)


@pytest.mark.needs("dockerd")
def test_a_container_is_left_over_when_its_host_is_killed_and_not_before(
    engine: DockerEngine, owned: Home
) -> None:
    with KilledHost(owned.configuration, box(), "a") as host:
        assert found_by(owned).leftovers == []
        host.kill()
        (left,) = found_by(owned).leftovers
        assert (left.kind, left.name, left.reason) == (
            "container", host.identity, "its host is gone",
        )  # fmt: skip
        assert left.session == list_sessions(owned)[0].id
        assert removed_by(owned) == []
    assert host.identity not in containers(engine)
    assert found_by(owned).leftovers == []


@pytest.mark.needs("dockerd")
def test_what_another_home_has_is_left_alone_until_that_home_is_gone(
    engine: DockerEngine, owned: Home, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with KilledHost(other, box(), "a") as host:
        host.kill()
        assert found_by(owned, also=host.identity).leftovers == []
        other.rename(tmp_path / "moved")
        (left,) = found_by(owned, also=host.identity).leftovers
        assert (left.name, left.reason) == (host.identity, "its home is gone")
        assert removed_by(owned, also=host.identity) == []
    assert host.identity not in containers(engine)


@pytest.mark.needs("dockerd")
def test_what_is_kept_goes_only_when_it_is_named_and_its_loss_is_told(
    engine: DockerEngine, owned: Home, open_box: Opener
) -> None:
    with KilledHost(owned.configuration, box(persistent=True), "kept") as host:
        host.kill()
    found = found_by(owned)
    assert found.leftovers == []
    assert host.identity in {each.identity for each in found.retained}
    assert removed_by(owned) == []
    assert host.identity in containers(engine)
    with pytest.raises(NotFound):
        found_by(owned, "no-such-name")
    for name in ("kept", "box", host.identity):
        assert [each.identity for each in found_by(owned, name).leftovers] == [host.identity]
    assert removed_by(owned, "kept") == []
    assert host.identity not in containers(engine)

    async def open_again() -> None:
        async with open_box({"persistent": True}, session_id="kept") as session:
            await session.run("true")

    with pytest.raises(RetainedStateMissing):
        anyio.run(open_again)


@pytest.mark.needs("dockerd")
def test_a_session_takes_its_container_along_even_a_kept_one(
    engine: DockerEngine, owned: Home, open_box: Opener
) -> None:
    async def use(profile: dict[str, Any], name: str) -> str:
        async with open_box(profile, name=name) as session:
            await session.run("true")
            return str(session._environment.placement.identity)

    kept = anyio.run(use, {"persistent": True}, "kept")
    shared = anyio.run(use, {"shared": True}, "shared")
    assert remove_with_environment(owned, "kept") == ""
    assert remove_with_environment(owned, "shared") == ""
    assert kept not in containers(engine)
    assert shared in containers(engine)
    assert not (owned.environments / kept).exists()
    assert list_sessions(owned) == []
    # Nobody has a session in the shared one any more, and it is kept nevertheless.
    assert found_by(owned).leftovers == []
    assert removed_by(owned, shared) == []
    assert shared not in containers(engine)
    assert not (owned.environments / shared).exists()


@pytest.mark.needs("dockerd")
def test_a_session_is_kept_while_its_environment_cannot_be_reached_or_is_in_use(
    engine: DockerEngine, owned: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KilledHost(owned.configuration, box(persistent=True), "a") as host:
        with pytest.raises(BackendUnavailable, match="open in another program"):
            remove_with_environment(owned, "a")
        host.kill()
        with monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", "unix:///no/such/socket")
            with pytest.raises(BackendUnavailable, match="--force"):
                remove_with_environment(owned, "a")
            assert [each.name for each in list_sessions(owned)] == ["a"]
            assert "engine does not answer" in found_by(owned).problems[0]
            assert "may still be there" in remove_with_environment(owned, "a", is_forced=True)
        assert list_sessions(owned) == []
        # Its profile keeps it, so that it has to be named.
        assert found_by(owned).leftovers == []
        assert removed_by(owned, host.identity) == []
    assert host.identity not in containers(engine)
    assert not (owned.environments / host.identity).exists()


@pytest.mark.needs("dockerd")
def test_a_delivered_worker_that_no_container_uses_goes_with_its_version(
    engine: DockerEngine,
    owned: Home,
    portable_worker: WorkerBundle,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("MOORAGE_WORKER_BUNDLE", str(portable_worker.archive))
    volume = f"moorage-worker-{tmp_path.parent.name}-{tmp_path.name}"
    engine.said("volume", "create", "--label=moorage.bundle=of-a-former-version", volume)
    carrier = f"{volume}-user"
    try:
        engine.run("create", f"--name={carrier}", f"--volume={volume}:/x", BARE_IMAGE, "/bin/true")
        assert found_by(owned, also=volume).leftovers == []
        engine.run("rm", carrier)
        assert [each.name for each in found_by(owned, also=volume).leftovers] == [volume]
        assert removed_by(owned, also=volume) == []
        assert volume not in engine.said("volume", "ls", "--format={{.Name}}").split()
    finally:
        if carrier in containers(engine):
            engine.run("rm", "--force", carrier)
        if volume in engine.said("volume", "ls", "--format={{.Name}}").split():
            engine.run("volume", "rm", volume)


@pytest.mark.needs("apptainer")
def test_the_folders_of_a_killed_host_are_left_over_in_apptainer(
    owned: Home, portable_worker: WorkerBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORAGE_WORKER_BUNDLE", str(portable_worker.archive))
    monkeypatch.setenv("PATH", f"{APPTAINER.parent}:{os.environ['PATH']}")
    image = {"backend": "singularity", "image": str(APPTAINER_IMAGE)}
    old_bundle = owned.environments / "bundles" / "of-a-former-version"
    with KilledHost(owned.configuration, image, "a") as host:
        old_bundle.mkdir()
        # A container that runs may have it mounted.
        assert found_by(owned).leftovers == []
        host.kill()
        found = {each.kind: each for each in found_by(owned).leftovers}
        assert set(found) == {"folder", "bundle"}
        assert found["folder"].name == str(owned.environments / host.identity)
        assert removed_by(owned) == []
    assert not (owned.environments / host.identity / "workspace").exists()
    assert not old_bundle.exists()
    assert found_by(owned).leftovers == []
    assert remove_with_environment(owned, "a") == ""
    assert not (owned.environments / host.identity).exists()


@pytest.mark.needs("sshd")
def test_a_folder_on_another_machine_is_left_over_when_its_worker_cannot_remove_it(
    running_ssh_server: SshServer,
    owned: Home,
    portable_worker: WorkerBundle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOORAGE_WORKER_BUNDLE", str(portable_worker.archive))
    profile = running_ssh_server.profile()
    with KilledHost(owned.configuration, profile, "a") as host:
        host.kill()
        # Its worker has an idle time to be found again in, and removes the folder itself.
        assert found_by(owned).leftovers == []
        note = owned.environments / host.identity / "open"
        os.utime(note, (0, 0))
        (left,) = found_by(owned).leftovers
        assert left.name.endswith(f"/{host.identity}")
        assert removed_by(owned) == []
        os.utime(note, (0, 0))
        assert found_by(owned).leftovers == []


def test_what_is_remembered_of_a_session_goes_when_the_session_is_gone(owned: Home) -> None:
    identity = "moorage-" + "0" * 32
    (owned.environments / identity).mkdir(parents=True)
    (owned.environments / identity / "lock").touch()
    (left,) = found_by(owned).leftovers
    assert (left.kind, left.name) == ("memory", str(owned.environments / identity))
    assert removed_by(owned) == []
    assert not (owned.environments / identity).exists()


@pytest.mark.needs("sshd")
def test_a_session_takes_its_folder_on_another_machine_along(
    owned: Home, open_there: Opener
) -> None:
    async def use() -> str:
        async with open_there({"persistent": True}, name="kept") as session:
            return (await session.run("pwd")).stdout.strip()

    async def is_there(folder: str) -> bool:
        async with open_there({"persistent": True}) as session:
            return (await session.run(f"test -d {folder}")).exit_code == 0

    folder = anyio.run(use)
    assert anyio.run(is_there, folder)
    assert remove_with_environment(owned, "kept") == ""
    assert not anyio.run(is_there, folder)


@pytest.mark.needs("dockerd")
def test_a_delivery_that_was_cut_off_is_left_over_with_its_volume(
    engine: DockerEngine, owned: Home, tmp_path: Path
) -> None:
    identity = f"moorage-{tmp_path.parent.name}-{tmp_path.name}"
    state = owned.environments / identity
    state.mkdir(parents=True)
    labels = labels_of(identity, owner(), str(state), is_retained=False)
    volume, carrier = f"{identity}-volume", f"{identity}-carrier"
    engine.said("volume", "create", "--label=moorage.bundle=of-a-former-version", volume)
    try:
        words = (f"--name={carrier}", *label_words(labels), f"--volume={volume}:/x")
        engine.run("create", *words, BARE_IMAGE, "/bin/true")
        found = {each.name for each in found_by(owned, also=volume).leftovers}
        assert {carrier, volume} <= found
        assert removed_by(owned, also=volume) == []
    finally:
        gone = carrier not in containers(engine)
        if not gone:
            engine.run("rm", "--force", carrier)
        if volume in engine.said("volume", "ls", "--format={{.Name}}").split():
            engine.run("volume", "rm", volume)
    assert gone
