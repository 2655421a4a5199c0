"""Sessions on a machine that is reached by SSH, through a real server."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.live.conftest import Opener
from tests.live.ssh_server import SshServer

import moorage
from moorage.errors import BackendUnavailable, ConfigError, OutcomeUnknown, RetainedStateMissing
from moorage.testing.honesty import PROBES

pytestmark = [pytest.mark.needs("root"), pytest.mark.needs("sshd"), pytest.mark.needs("landlock")]


def root_of(session: moorage.Session) -> Path:
    environment = session._environment
    return Path(environment._backend.root(environment.placement))


async def test_an_account_without_a_worker_is_given_one_and_used_as_that_account(
    open_there: Opener, running_ssh_server: SshServer
) -> None:
    delivered = running_ssh_server.home / ".local" / "share" / "moorage-worker"
    shutil.rmtree(delivered, ignore_errors=True)
    async with open_there() as session:
        ran = await session.run("whoami; pwd; command -v moorage-worker || echo none installed")
        assert ran.stdout.splitlines() == [
            running_ssh_server.account,
            str(root_of(session)),
            "none installed",
        ]
        await session.write_file("a.txt", "one\n")
        assert (await session.run("cat a.txt")).stdout == "one\n"
        # Its own programs start there, too, although the worker's state is hidden from them.
        assert "a.txt" in (await session.grep("one")).content[0].text
    assert len(list(delivered.iterdir())) == 1


@pytest.mark.parametrize("probe", PROBES)
async def test_the_environment_is_honest(open_there: Opener, probe: str) -> None:
    async with open_there() as session:
        await PROBES[probe](session)


async def test_a_retained_workspace_is_found_again_with_its_processes(open_there: Opener) -> None:
    kept = {"persistent": True}
    async with open_there(kept, name="kept") as session:
        await session.write_file("a.txt", "kept\n")
        record = await session.processes.start("exec sleep 1000")
    async with open_there(kept, session_id="kept") as session:
        assert (await session.read_file("a.txt")).text == "kept\n"
        assert (await session.processes.get(record.id)).status == "running"
        await session.processes.stop(record.id)


async def test_a_retained_workspace_that_is_gone_is_an_error_and_nothing_takes_its_place(
    open_there: Opener,
) -> None:
    kept = {"persistent": True}
    async with open_there(kept, name="gone") as session:
        await session.run("true")
        root = root_of(session)
        await session._environment._backend.end_worker(session._environment.placement)
    shutil.rmtree(root)
    async with open_there(kept, session_id="gone") as session:
        with pytest.raises(RetainedStateMissing, match="is gone"):
            await session.run("true")
    assert not root.exists()


async def test_without_retention_the_workspace_goes_with_its_worker(open_there: Opener) -> None:
    async with open_there() as session:
        await session.write_file("a.txt", "one\n")
        root = root_of(session)
        assert root.exists()
        await session._environment._backend.end_worker(session._environment.placement)
    assert not root.exists()


async def test_what_a_session_without_a_name_started_ends_with_it(open_there: Opener) -> None:
    async with open_there() as session:
        record = await session.processes.start("exec sleep 1000", tty=False)
    assert not Path(f"/proc/{record.pid}").exists()


async def test_a_lost_connection_loses_neither_worker_nor_files_and_repeats_nothing(
    open_there: Opener,
) -> None:
    async with open_there() as session:
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
            os.killpg(session._environment._connection._transport.pid, signal.SIGKILL)
        assert len(lost) == 1
        assert (await session.run("touch go; cat log")).stdout == "once\n"


async def test_an_unknown_host_key_is_refused_and_said(open_there: Opener, tmp_path: Path) -> None:
    async with open_there({"known_hosts_file": str(tmp_path / "none")}) as session:
        with pytest.raises(BackendUnavailable, match="Host key verification failed") as caught:
            await session.run("true")
    assert "check the key" in caught.value.hint


async def test_a_key_that_does_not_open_is_said(open_there: Opener, tmp_path: Path) -> None:
    await anyio.run_process(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"])
    async with open_there({"identity_file": str(tmp_path / "k")}) as session:
        with pytest.raises(BackendUnavailable, match="Permission denied") as caught:
            await session.run("true")
    assert "identity_file" in caught.value.hint


async def test_a_port_without_a_server_is_said(open_there: Opener) -> None:
    async with open_there({"port": 1}) as session:
        with pytest.raises(BackendUnavailable, match="Connection refused"):
            await session.run("true")


async def test_a_workspace_that_cannot_be_made_is_said(open_there: Opener) -> None:
    async with open_there({"workspace": "/proc/nowhere"}) as session:
        with pytest.raises(ConfigError, match="cannot be made"):
            await session.run("true")
