"""Sessions with a name or an id: a real worker that outlives its host, shared, lost and ended."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import msgspec
import psutil
import pytest

import moorage
from moorage.app.home import Home, find_home
from moorage.app.sessions import configure_session, list_sessions, remove_session, stop_session
from moorage.backends import local
from moorage.backends.ending import end_worker, running_pid
from moorage.backends.kept_token import kept_token
from moorage.backends.stay import StayingLimits
from moorage.connection.host_end import HostConnection
from moorage.errors import ConfigError, NotFound, ProtocolMismatch, ShutdownIncomplete
from moorage.host import environments
from moorage.protocol.processes import ProcessEvent, ProcessRecord, StartRequest, WriteRequest

Opener = Callable[..., AbstractAsyncContextManager[moorage.Session]]

# What a confined command can try: find the token, and without it speak to the worker.
INTRUDE = """
import json, os, socket, sys
folder = sys.argv[1]
def attempt(what):
    try:
        return repr(what())
    except OSError as error:
        return type(error).__name__
print(attempt(lambda: open(folder + "/token").read()))
def ask():
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(5)
        # As short as the worker's own way, by a descriptor that opens nothing.
        descriptor = os.open(folder, os.O_PATH)
        stranger.connect(f"/proc/self/fd/{descriptor}/socket")
        binding = json.loads(sys.argv[2])
        frame = {"token": "f" * 64, "id": "1", "method": "initialize", "data": binding}
        stranger.sendall(json.dumps(frame).encode() + b"\\n")
        return stranger.recv(65536)
print(attempt(ask))
"""


@pytest.fixture
def kept(home: Path) -> Home:
    return find_home(home)


def folder_of(session: moorage.Session, kept: Home) -> Path:
    return kept.sessions / session.id / "worker"


def workers_in(folder: Path) -> list[psutil.Process]:
    """Return the workers that were started for this folder, without their own children."""
    found = [
        process
        for process in psutil.process_iter(["cmdline"])
        if f"--stay={folder}" in (process.info["cmdline"] or ())
    ]
    pids = {process.pid for process in found}
    return [process for process in found if process.ppid() not in pids]


def streams_of(pid: int) -> list[str]:
    return [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)]


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, whether or not its new parent took note."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_the_worker_of_a_named_session_outlives_its_host(
    open_here: Opener, kept: Home
) -> None:
    async with open_here(name="build") as session:
        left = await session.run("sleep 1000 & echo $!")
        sleeper = int(left.stdout)
    folder = folder_of(session, kept)
    pid = running_pid(folder)
    assert pid is not None
    worker = psutil.Process(pid)
    assert os.getsid(pid) == pid
    assert worker.cwd() == "/"
    assert streams_of(pid) == ["/dev/null", str(folder / "log"), str(folder / "log")]
    for asked in ("build", session.id):
        async with open_here(session_id=asked, workspace=None) as again:
            assert (await again.run(f"kill -0 {sleeper} && echo alive")).stdout == "alive\n"
    assert [summary.worker_pid for summary in list_sessions(kept)] == [pid]
    assert stop_session(kept, "build")
    assert is_gone(pid)
    assert is_gone(sleeper)
    assert not stop_session(kept, "build")


async def test_what_is_kept_of_the_worker_is_for_the_user_alone(
    open_here: Opener, kept: Home
) -> None:
    async with open_here(name="build") as session:
        await session.run("true")
    folder = folder_of(session, kept)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in folder.iterdir():
        assert stat.S_IMODE(file.lstat().st_mode) == 0o600, file
    token = (folder / "token").read_text()
    cmdline = psutil.Process(running_pid(folder)).cmdline()
    assert token not in " ".join(cmdline)


async def test_a_session_without_a_name_ends_its_worker_and_keeps_none(
    open_here: Opener, kept: Home
) -> None:
    async with open_here() as session:
        await session.run("true")
    assert not folder_of(session, kept).exists()
    assert list_sessions(kept)[0].worker_pid is None


async def test_hosts_that_open_a_session_at_once_share_one_worker(
    open_here: Opener, kept: Home
) -> None:
    async with open_here(name="build") as session:
        pass
    said = []

    async def use() -> None:
        async with open_here(session_id="build", workspace=None) as again:
            said.append((await again.run("echo $PPID")).stdout)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(use)
    assert len(said) == 4
    # One launcher started all of them, so one worker did.
    assert len(set(said)) == 1
    assert [each.pid for each in workers_in(folder_of(session, kept))] == [
        running_pid(folder_of(session, kept))
    ]


async def test_a_killed_worker_makes_the_call_unknown_and_is_replaced_without_a_replay(
    open_here: Opener, kept: Home, workspace: Path
) -> None:
    os.mkfifo(workspace / "begun")
    async with open_here(name="build") as session:
        await session.run("true")
        pid = running_pid(folder_of(session, kept))
        assert pid is not None

        async def kill_when_begun() -> None:
            reader = await anyio.open_file(workspace / "begun")
            await reader.read()
            await reader.aclose()
            os.kill(pid, signal.SIGKILL)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill_when_begun)
            with pytest.raises(moorage.OutcomeUnknown, match="log"):
                await session.run("echo once >> ran; echo begun > begun; sleep 1000")
        assert (folder_of(session, kept) / "socket").exists()
        assert (await session.run("cat ran")).stdout == "once\n"
        assert running_pid(folder_of(session, kept)) not in {None, pid}
    # And for whoever opens the session after a worker was killed while nobody looked.
    os.kill(running_pid(folder_of(session, kept)) or 0, signal.SIGKILL)
    async with open_here(session_id="build", workspace=None) as again:
        assert (await again.run("cat ran")).stdout == "once\n"


async def test_other_grants_than_the_worker_has_are_refused_until_it_is_restarted(
    open_here: Opener, kept: Home, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    async with open_here(name="build") as session:
        await session.run("true")
    reopened = {"session_id": "build", "workspace": None}
    async with open_here(**reopened, writable_roots=[tmp_path / "more"]) as again:
        with pytest.raises(ConfigError, match=r"another writable_roots, .*session restart s-"):
            await again.run("true")
        stop_session(kept, "build")
        assert (await again.run(f"touch {tmp_path}/more/made")).exit_code == 0


async def test_what_the_user_changes_ends_the_worker_that_was_started_with_the_old(
    open_here: Opener, kept: Home
) -> None:
    async with open_here(name="build") as session:
        await session.run("true")
    configure_session(kept, "build", mode="standard")
    assert running_pid(folder_of(session, kept)) is not None
    configure_session(kept, "build", mode="read_only")
    assert running_pid(folder_of(session, kept)) is None
    async with open_here(session_id="build", workspace=None) as again:
        with pytest.raises(moorage.Refused, match="the permission mode is read_only"):
            await again.run("touch made")


async def test_a_worker_of_another_version_is_refused_with_the_remedy(
    open_here: Opener, kept: Home
) -> None:
    async with open_here(name="build") as session:
        await session.run("true")
    record = folder_of(session, kept) / "grants.json"
    told = msgspec.json.decode(record.read_bytes())
    told["grants"]["version"] = "0.0.1"
    record.write_bytes(msgspec.json.encode(told))
    async with open_here(session_id="build", workspace=None) as again:
        with pytest.raises(ProtocolMismatch, match=r"Moorage 0\.0\.1, and this is .*restart"):
            await again.run("true")
        record.unlink()
        with pytest.raises(ConfigError, match=r"nothing says .*restart"):
            await again.run("true")


async def test_a_rotated_forwarded_variable_is_refused_with_the_remedy(
    open_here: Opener, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir(mode=0o700)  # noqa: ASYNC240 - one folder, before anything runs
    profile = {"backend": "local", "forward_env": ["GIVEN"]}
    configuration = {"execution_environments": {"profiles": {"mine": profile}}}
    (home / "config.json").write_bytes(msgspec.json.encode(configuration))
    monkeypatch.setenv("GIVEN", "first")
    async with open_here(environment="mine", name="build") as session:
        assert (await session.run("echo $GIVEN")).stdout == "first\n"
    monkeypatch.setenv("GIVEN", "second")
    async with open_here(session_id="build", workspace=None) as again:
        with pytest.raises(ConfigError, match=r"environment would.*moorage session restart"):
            await again.run("echo $GIVEN")


async def test_a_new_grant_in_a_live_session_restarts_its_worker(
    open_here: Opener, kept: Home, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    async with open_here(name="build") as session:
        await session.run("true")
        before = running_pid(folder_of(session, kept))
        await session.grant(writable_roots=[tmp_path / "more"])
        assert (await session.run(f"touch {tmp_path}/more/made")).exit_code == 0
        assert running_pid(folder_of(session, kept)) != before


async def test_a_removed_session_is_ended_first(open_here: Opener, kept: Home) -> None:
    async with open_here(name="build") as session:
        await session.run("true")
    pid = running_pid(folder_of(session, kept))
    assert pid is not None
    remove_session(kept, "build")
    assert is_gone(pid)
    assert list_sessions(kept) == []
    with pytest.raises(NotFound):
        stop_session(kept, "build")


async def test_a_worker_that_hangs_is_told_of_and_ended_by_force(
    open_here: Opener, kept: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "INITIALIZE_SECONDS", 0.2)
    async with open_here(name="build") as session:
        await session.run("true")
    folder = folder_of(session, kept)
    pid = running_pid(folder)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    limits = StayingLimits(end_seconds=0.1)
    try:
        profile = "moorage.backends.local.grace_seconds"
        monkeypatch.setattr(profile, lambda _: 0.1)
        async with open_here(session_id="build", workspace=None) as again:
            with pytest.raises(moorage.BackendUnavailable, match="moorage session stop"):
                await again.run("true")
    finally:
        with pytest.raises(ShutdownIncomplete, match="was killed"):
            end_worker(folder, limits)
    assert is_gone(pid)


async def test_a_confined_command_cannot_use_the_socket_of_its_own_worker(
    open_here: Opener, kept: Home, workspace: Path
) -> None:
    (workspace / "intrude.py").write_text(INTRUDE)
    async with open_here(name="build") as session:
        folder = folder_of(session, kept)
        binding = msgspec.json.encode({"version": 4, "root": str(workspace), "session": session.id})
        command = ["python3", "intrude.py", str(folder), binding.decode()]
        read, answered = (await session.run(command)).stdout.splitlines()
        assert read == "PermissionError"
        assert "PermissionError" in answered or "missing or wrong" in answered
        for name in ("token", "grants.json", "log"):
            with pytest.raises((moorage.Refused, moorage.ToolFailed)):
                await session.read_file(str(folder / name))
        assert (await session.run("echo unharmed")).stdout == "unharmed\n"


async def test_a_worker_that_nobody_uses_ends_after_the_last_of_what_runs_in_it(
    open_here: Opener, kept: Home, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(workspace / "pipe")
    limits = StayingLimits(idle_seconds=0.05)
    monkeypatch.setattr(local, "BACKEND", local.LocalBackend(limits))
    async with open_here(name="build") as session:
        left = await session.run("(read line < pipe; echo $line > got) & true")
        assert left.left_running == 1
        pid = running_pid(folder_of(session, kept))
        assert pid is not None
        worker = os.pidfd_open(pid)
    try:
        # It is there to read after its host has left, and only then may the worker end.
        with anyio.fail_after(10):
            async with await anyio.open_file(workspace / "pipe", "w") as pipe:
                await pipe.write("hello\n")
            await anyio.wait_readable(worker)
    finally:
        os.close(worker)
    assert await anyio.Path(workspace / "got").read_text() == "hello\n"
    assert running_pid(folder_of(session, kept)) is None
    assert not (folder_of(session, kept) / "socket").exists()


async def test_every_host_hears_of_a_background_process_which_outlives_the_one_that_asked(
    open_here: Opener, kept: Home
) -> None:
    heard: list[tuple[str, str]] = []
    ended = anyio.Event()

    def note(event: ProcessEvent, _: bool) -> None:
        heard.append((event.type, event.process.id))
        if event.process.is_terminal:
            ended.set()

    async with open_here(name="build") as session:
        await session.run("true")
        environment = session._environment
        transport = await local.BACKEND.open_transport(environment.placement)
        token = kept_token(folder_of(session, kept))
        async with HostConnection(transport, token, on_process_event=note) as other:
            await other.initialize(environment._binding())
            asked = StartRequest(
                operation_id="op-1", command="read line", actor=session.id, tty=True
            )
            connection = await environment.connection()
            started = await connection.request("process/start", asked, ProcessRecord)
            # The one that asked leaves; the process and the other host do not care.
            await environment._drop()
            told = WriteRequest(id=started.id, input="go\n")
            await other.request("process/write", told, ProcessRecord)
            with anyio.fail_after(10):
                await ended.wait()
    assert heard[0] == ("started", started.id)
    assert heard[-1] == ("stopped", started.id)
