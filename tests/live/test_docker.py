"""Sessions in real containers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.live.conftest import Opener
from tests.live.engine import WORKER_IMAGE, DockerEngine

import moorage
from moorage.backends.container import HOME
from moorage.errors import (
    BackendUnavailable,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolMismatch,
    ProvisionError,
    RetainedStateMissing,
)
from moorage.testing.honesty import PROBES
from moorage.transports.stdio import ChildTransport
from moorage.transports.transport import Transport

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.needs("dockerd"),
    pytest.mark.needs("landlock"),
]


def container_of(session) -> str:
    return str(session._environment.placement.identity)


CHOSEN = ("User", "Image", "WorkingDir", "Env", "Labels", "Entrypoint", "Cmd")
WAYS = ("socket", "command line")


def choose(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the engine spoken to by its socket, or by its command line alone."""
    if way == "command line":
        monkeypatch.setattr("moorage.backends.engine.socket_of", lambda _: None)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return str(request.param)


def names(engine: DockerEngine) -> list[str]:
    return engine.said("ps", "--all", "--format={{.Names}}").split()


async def test_tools_act_in_the_container_and_it_goes_with_the_session(
    open_box: Opener, engine: DockerEngine
) -> None:
    async with open_box() as session:
        ran = await session.run("pwd; id -u; cat /proc/1/comm; echo $HOME")
        assert ran.stdout.split() == ["/workspace", "0", "docker-init", HOME]
        await session.write_file("a.txt", "one\n")
        assert (await session.run("cat a.txt")).stdout == "one\n"
        found = await session.grep("one")
        assert "a.txt" in found.content[0].text
        name = container_of(session)
        assert name in names(engine)
    assert name not in names(engine)


async def test_a_command_cannot_write_outside_the_workspace_even_as_root(open_box: Opener) -> None:
    async with open_box() as session:
        ended = await session.run("touch /etc/x || touch /tmp/x || echo refused")
        assert ended.stdout == "refused\n"
        assert ended.envelope["sandbox"]["enforcement"] == "full"


@pytest.mark.parametrize("probe", PROBES)
async def test_the_environment_is_honest(open_box: Opener, probe: str) -> None:
    async with open_box() as session:
        await PROBES[probe](session)


async def test_background_processes_run_there_and_are_followed(open_box: Opener) -> None:
    async with open_box() as session:
        record = await session.processes.start("test -t 1 && echo terminal; read line; exit 4")
        await session.processes.write(record.id, "\n")
        async for window in session.processes.follow(record.id):
            record = window.process
        assert (record.exit_code, record.tty) == (4, True)
        (told,) = await session.completions().take()
        assert told.process.id == record.id


async def test_a_retained_container_is_found_again_with_its_files_and_processes(
    open_box: Opener, engine: DockerEngine
) -> None:
    kept = {"persistent": True}
    async with open_box(kept, name="kept") as session:
        await session.write_file("a.txt", "kept\n")
        record = await session.processes.start("exec sleep 1000")
        name = container_of(session)
    assert name in names(engine)
    async with open_box(kept, session_id="kept") as session:
        assert (await session.read_file("a.txt")).text == "kept\n"
        assert (await session.processes.get(record.id)).status == "running"
        assert container_of(session) == name


async def test_a_session_without_a_name_leaves_nothing_running_in_a_retained_container(
    open_box: Opener, engine: DockerEngine
) -> None:
    async with open_box({"shared": True}) as session:
        await session.processes.start("exec sleep 4711")
        name = container_of(session)
    listed = engine.said("exec", name, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 4711" not in listed


async def test_a_retained_container_that_is_gone_is_an_error_and_nothing_takes_its_place(
    open_box: Opener, engine: DockerEngine
) -> None:
    kept = {"persistent": True}
    async with open_box(kept, name="gone") as session:
        await session.run("true")
        name = container_of(session)
    engine.run("rm", "--force", name)
    async with open_box(kept, session_id="gone") as session:
        with pytest.raises(RetainedStateMissing, match="is gone"):
            await session.run("true")
    assert name not in names(engine)


async def test_an_engine_that_is_down_is_told_apart_from_a_container_that_is_gone(
    open_box: Opener, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = {"persistent": True}
    async with open_box(kept, name="down") as session:
        await session.run("true")
    with monkeypatch.context() as patched:
        patched.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody'}")
        async with open_box(kept, session_id="down") as session:
            with pytest.raises(BackendUnavailable, match="engine does not answer"):
                await session.run("true")
    async with open_box(kept, session_id="down") as session:
        assert (await session.run("echo back")).stdout == "back\n"


async def test_a_container_of_someone_else_under_the_same_name_is_left_alone(
    open_box: Opener, engine: DockerEngine
) -> None:
    async with open_box() as session:
        name = container_of(session)
        words = (
            "create",
            "--name",
            name,
            "--label",
            "moorage.identity=other",
            WORKER_IMAGE,
            "true",
        )
        engine.run(*words)
        with pytest.raises(ProvisionError, match="not of this Moorage"):
            await session.run("true")
    assert name in names(engine)
    engine.run("rm", name)


def lose(transport: Transport) -> None:
    """Lose the way to a worker, as when a network or a program on the way fails."""
    if isinstance(transport, ChildTransport):
        os.killpg(transport.pid, 9)
    else:
        transport._stream._shut(socket.SHUT_RDWR)


async def test_the_transport_may_be_lost_and_nothing_is_done_twice(
    open_box: Opener, way: str
) -> None:
    async with open_box() as session:
        await session.run("true")
        lost = []
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                try:
                    await session.run("echo once >> log; until test -e go; do sleep 0.01; done")
                except OutcomeUnknown as error:
                    lost.append(error)

            tasks.start_soon(call)
            while not (await session.run("cat log 2>/dev/null")).stdout:
                await anyio.lowlevel.checkpoint()
            transport = session._environment._connection._transport
            assert isinstance(transport, ChildTransport) is (way == "command line")
            lose(transport)
        assert len(lost) == 1
        assert (await session.run("touch go; cat log")).stdout == "once\n"


def facts_of(engine: DockerEngine, session: moorage.Session) -> list[dict[str, Any]]:
    """Return what a container is, but for its name and for what nobody chose."""
    told = engine.said("inspect", container_of(session))
    told = told.replace(container_of(session), "CONTAINER").replace(session.id, "SESSION")
    (found,) = json.loads(told)
    config = {key: found["Config"][key] for key in CHOSEN}
    host = {key: value for key, value in found["HostConfig"].items() if value}
    del host["RestartPolicy"]  # Two words for none.
    return [config, host, *found["Mounts"]]


async def test_a_container_is_the_same_whichever_way_the_engine_is_told(
    open_box: Opener, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    profile = {
        "host_workspace": str(mounted),
        "mount_read_only": True,
        "memory_mb": 256,
        "cpus": 0.5,
        "user": "1234:1234",
        "network": "none",
    }
    made = []
    for way in WAYS:
        choose(way, monkeypatch)
        async with open_box(profile) as session:
            await session.run("true")
            made.append(facts_of(engine, session))
    assert made[0] == made[1]
    assert made[0][1]["Memory"] == 256 * 2**20


async def test_limits_are_those_of_the_profile(open_box: Opener, engine: DockerEngine) -> None:
    async with open_box({"memory_mb": 64, "cpus": 0.5}) as session:
        hog = await session.run("python3 -c 'x = bytearray(200 * 2**20); print(len(x))'")
        assert hog.exit_code != 0
        assert "209715200" not in hog.stdout
        made = engine.said("inspect", "--format={{.HostConfig.NanoCpus}}", container_of(session))
        assert made == "500000000"


async def test_a_mounted_folder_keeps_its_owner_and_the_user_has_a_name_and_a_home(
    open_box: Opener, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    os.chown(mounted, 1234, 1234)
    profile = {"host_workspace": str(mounted), "user": "1234:1234"}
    async with open_box(profile, mode="unconfined") as session:
        ran = await session.run("whoami; touch made; touch $HOME/x && echo home")
        assert ran.stdout.split() == ["moorage", "home"], ran.stderr
    assert (mounted / "made").stat().st_uid == 1234


async def test_a_mount_for_reading_blocks_writes_in_every_mode(
    open_box: Opener, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    (mounted / "a").write_text("there\n")
    profile = {"host_workspace": str(mounted), "mount_read_only": True}
    async with open_box(profile, mode="unconfined") as session:
        ran = await session.run("cat a; touch b || echo refused")
        assert ran.stdout.split() == ["there", "refused"]
    assert [path.name for path in mounted.iterdir()] == ["a"]


async def test_a_kept_container_of_another_version_is_refused(
    open_box: Opener, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"persistent": True}
    async with open_box(kept, name="older") as session:
        await session.run("true")
    monkeypatch.setattr("moorage.backends.docker.version", lambda _: "99.0")
    async with open_box(kept, session_id="older") as session:
        with pytest.raises(ProtocolMismatch, match=r"was made with Moorage .*, and this is 99\.0"):
            await session.run("true")


async def test_an_image_that_cannot_be_had_is_said(open_box: Opener) -> None:
    async with open_box({"image": "moorage-test/none"}) as session:
        with pytest.raises(ProvisionError, match="moorage-test/none"):
            await session.run("true")


async def test_a_shared_container_is_made_once_however_many_come_at_once(
    open_box: Opener, engine: DockerEngine
) -> None:
    seen = []

    async def use() -> None:
        async with open_box({"shared": True}) as session:
            seen.append(((await session.run("hostname")).stdout, container_of(session)))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(use)
    assert len(set(seen)) == 1


async def test_a_broken_worker_is_no_silence(open_box: Opener) -> None:
    async with open_box({"worker": "moorage-worker-of-nobody"}) as session:
        with pytest.raises((ProvisionError, ConnectionLost), match="no worker"):
            await session.run("true")


def test_people_reach_what_runs_in_a_kept_container(engine: DockerEngine, home: Path) -> None:
    profile = {"backend": "docker", "image": WORKER_IMAGE, "network": "none", "persistent": True}
    document = {"execution_environments": {"default": "box", "profiles": {"box": profile}}}
    (home / "config.json").write_text(json.dumps(document))

    def moorage_said(*words: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "moorage.cli", *words],
            env=os.environ | {"MOORAGE_HOME": str(home)},
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode() + ended.stderr.decode()

    process = moorage_said("start", "--name", "far", "-c", "echo there; exec sleep 1000").split()[0]
    name = engine.said("ps", "--format={{.Names}}").split()[0]
    try:
        assert process in moorage_said("ps")
        assert "there" in moorage_said("logs", process)
        assert "was stopped" in moorage_said("stop", process)
        assert "ended 1 worker" in moorage_said("session", "stop", "far")
        assert "ended 0" not in moorage_said("session", "restart", "far")
    finally:
        engine.run("rm", "--force", name)
