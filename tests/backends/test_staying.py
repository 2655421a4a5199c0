"""Reaching a worker that stays when something is wrong with it, its folder or its start."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from moorage.backends import ending, local
from moorage.backends.ending import end_worker
from moorage.backends.grants import write_record
from moorage.backends.stay import LOG, SOCKET, Grants, Stay, StayingLimits
from moorage.backends.staying import reach
from moorage.errors import BackendUnavailable, ConfigError, ShutdownIncomplete
from moorage.policy.permission import PermissionMode
from moorage.transports import private_sockets, standing_lock

LIMITS = StayingLimits(
    start_seconds=5.0, start_lock_seconds=0.05, retry_seconds=0.001, connect_seconds=0.05
)
GRANTS = Grants(
    version="1", mode=PermissionMode.STANDARD, writable_roots=(), hidden_paths=(), state="/state"
)
TELL = """
import os, sys
ready = int(sys.argv[-1].partition("=")[2])
os.write(ready, sys.argv[1].encode())
"""
# What it leaves behind ends as soon as nobody listens any more.
SAY_NOTHING = """
import os, select, sys
if not os.fork():
    poll = select.poll()
    poll.register(int(sys.argv[-1].partition("=")[2]), 0)
    poll.poll(10_000)
"""
TERMINATED_IN_VAIN = """
import os, signal, sys
from pathlib import Path
from moorage.transports import standing_lock
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = standing_lock.take(Path(sys.argv[1]))
os.write(1, b"held")
os.read(0, 1)
"""


def stay_of(folder: Path, *argv: str) -> Stay:
    return Stay(
        folder=folder,
        session="s-1",
        grants=GRANTS,
        argv=argv,
        variables=dict(os.environ),
        grace_seconds=1.0,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "worker"
    made.mkdir(mode=0o700)
    return made


async def start(stay: Stay, limits: StayingLimits = LIMITS) -> None:
    with anyio.fail_after(10):
        transport = await reach(stay, limits)
        await transport.aclose()


async def test_a_program_that_is_missing_is_told(folder: Path) -> None:
    with pytest.raises(BackendUnavailable, match="cannot start '/missing'"):
        await start(stay_of(folder, "/missing"))


async def test_the_last_words_of_a_worker_that_does_not_come_up_are_told(folder: Path) -> None:
    script = "import sys; sys.exit('no room for me')"
    with pytest.raises(BackendUnavailable, match=r"did not start\. Its last words: no room for me"):
        await start(stay_of(folder, sys.executable, "-c", script))
    with pytest.raises(BackendUnavailable, match=r"did not start\. Its log is"):
        await start(stay_of(folder / "quiet", sys.executable, "-c", ""))


async def test_the_reason_that_a_worker_gives_keeps_its_class(folder: Path) -> None:
    with pytest.raises(ConfigError, match="not here"):
        await start(stay_of(folder, sys.executable, "-c", TELL, "config_error: not here."))


async def test_a_worker_that_goes_away_at_once_is_told(folder: Path) -> None:
    with pytest.raises(BackendUnavailable, match="went away as soon as it was started"):
        await start(stay_of(folder, sys.executable, "-c", TELL, "ready\n"))


async def test_a_worker_that_does_not_get_ready_in_time_is_told(folder: Path) -> None:
    limits = msgspec.structs.replace(LIMITS, start_seconds=0.05)
    with pytest.raises(BackendUnavailable, match="did not start"):
        await start(stay_of(folder, sys.executable, "-c", SAY_NOTHING), limits)


async def test_another_host_that_starts_for_ever_is_told(folder: Path) -> None:
    descriptor = os.open(folder / "start", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BackendUnavailable, match="another program has been starting"):
            await start(stay_of(folder, "/missing"))
    finally:
        os.close(descriptor)


async def test_a_worker_that_takes_no_connections_is_told(folder: Path) -> None:
    with private_sockets.listen(folder / SOCKET) as listening:
        listening.listen(0)
        with (
            private_sockets.connect(folder / SOCKET),
            pytest.raises(BackendUnavailable, match="takes no connections"),
        ):
            await start(stay_of(folder, "/missing"))


async def test_a_socket_that_is_none_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError("the other side of the socket runs as user 1")

    monkeypatch.setattr(private_sockets, "check_peer", refuse)
    with (
        private_sockets.listen(folder / SOCKET),
        pytest.raises(BackendUnavailable, match="cannot be reached: the other side"),
    ):
        await start(stay_of(folder, "/missing"))


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        await start(stay_of(tmp_path / "file" / "worker", "/missing"))


async def test_a_long_log_is_put_aside(folder: Path) -> None:
    (folder / LOG).write_text("old words\n" * 100)
    limits = msgspec.structs.replace(LIMITS, max_log_bytes=100)
    script = "import sys; sys.exit('new words')"
    with pytest.raises(BackendUnavailable, match="last words: new words"):
        await start(stay_of(folder, sys.executable, "-c", script), limits)
    assert (folder / LOG).read_text() == "new words\n"
    assert (folder / "log.old").read_text().startswith("old words\n")


def test_what_a_worker_was_started_with_is_replaced_whole(folder: Path) -> None:
    for _ in range(2):
        write_record(stay_of(folder))
    assert [file.name for file in folder.iterdir()] == ["grants.json"]


async def test_a_worker_that_ignores_the_request_is_killed_and_told_of(folder: Path) -> None:
    argv = [sys.executable, "-c", TERMINATED_IN_VAIN, str(folder)]
    async with await anyio.open_process(argv, stderr=None) as stubborn:
        assert stubborn.stdout is not None
        assert await stubborn.stdout.receive() == b"held"
        assert ending.running_pid(folder) == stubborn.pid
        with pytest.raises(ShutdownIncomplete, match="was killed"):
            end_worker(folder, StayingLimits(end_seconds=0.05))
        assert await stubborn.wait() == -signal.SIGKILL


def test_nothing_is_ended_where_no_worker_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not end_worker(folder)
    monkeypatch.setattr(standing_lock, "holder", lambda _: 2**22 + 1)
    assert not end_worker(folder)
    monkeypatch.setattr(standing_lock, "holder", lambda _: 0)
    with pytest.raises(ShutdownIncomplete, match="another container"):
        end_worker(folder)


def test_a_number_that_passed_to_a_stranger_is_not_signalled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([os.getpid(), None])
    monkeypatch.setattr(standing_lock, "holder", lambda _: next(answers))
    assert end_worker(folder)


async def test_a_backend_without_such_a_worker_has_none_to_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from moorage.backends.backend import Placement  # noqa: PLC0415
    from moorage.backends.profile import LOCAL  # noqa: PLC0415

    ended: list[Path] = []
    monkeypatch.setattr(local, "end_worker", lambda folder, _: ended.append(folder))
    placement = Placement(
        identity="i",
        session="s-1",
        profile=LOCAL,
        workspace="/",
        mode=PermissionMode.STANDARD,
        worker_state=tmp_path,
        host_state=tmp_path / "environment",
    )
    await local.BACKEND.end_worker(placement)
    assert ended == []
    await local.BACKEND.end_worker(msgspec.structs.replace(placement, stays_in=tmp_path))
    assert ended == [tmp_path]
