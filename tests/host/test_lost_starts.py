"""A start whose connection is cut between its effect and its answer: unknown, found, not repeated.

And what becomes of background processes when their session ends.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import psutil
import pytest
from tests.host.conftest import Opener

import moorage
from moorage.errors import InvalidArguments, OutcomeUnknown
from moorage.transports.unix_socket import UnixSocketTransport

pytestmark = pytest.mark.needs("landlock")


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Cut:
    """Cuts the connection instead of taking in the first word of a process that was started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, word: bytes) -> None:
        self.is_done = False
        receive = UnixSocketTransport.receive

        async def receive_or_cut(transport: UnixSocketTransport) -> bytes:
            data = await receive(transport)
            if self.is_done or word not in data:
                return data
            self.is_done = True
            transport.close_receiving()
            await transport.close_sending()
            return b""

        monkeypatch.setattr(UnixSocketTransport, "receive", receive_or_cut)


async def test_a_start_that_was_cut_off_after_its_effect_is_found_and_not_repeated(
    open_here: Opener, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with anyio.fail_after(40):
        async with open_here(name="cut") as session:
            await session.run("true")
            cut = Cut(monkeypatch, b'"operation_id":"an-operation"')
            with pytest.raises(OutcomeUnknown, match="process/start was in flight"):
                await session.processes.start(
                    "echo once >> starts; echo ready; sleep 1000",
                    tty=False,
                    operation_id="an-operation",
                )
            assert cut.is_done
            found = await session.processes.find("an-operation")
            assert found is not None
            assert (found.status, found.root_thread_id) == ("running", session.id)
            window = await session.processes.read(found.id, offset=0, wait_seconds=10)
            assert window.output == "ready\n"
            assert (workspace / "starts").read_text() == "once\n"
            assert len(await session.processes.list()) == 1
            assert await session.processes.find("another") is None
            assert (await session.processes.stop(found.id)).status == "stopped"


async def test_a_session_that_does_not_stay_takes_its_processes_with_it(
    open_here: Opener,
) -> None:
    with anyio.fail_after(40):
        async with open_here() as session:
            stubborn = "trap '' TERM; echo ready; while :; do read -r -t 60 _ </dev/zero; done"
            plain = await session.processes.start(stubborn, tty=False)
            managed = await session.processes.start("sleep 1000", lifecycle="managed")
            await session.processes.read(plain.id, offset=0, wait_seconds=10)
            assert not is_gone(plain.pid)
            assert not is_gone(managed.pid)
    assert is_gone(plain.pid)
    assert is_gone(managed.pid)


async def test_a_session_that_stays_keeps_its_processes_until_it_is_stopped(
    open_here: Opener,
) -> None:
    with anyio.fail_after(40):
        async with open_here(name="stays") as session:
            record = await session.processes.start("read line; echo got $line", tty=False)
        assert not is_gone(record.pid)
        async with open_here(session_id="stays", workspace=None) as again:
            await again.processes.write(record.id, "it\n")
            window = await again.processes.read(record.id, offset=0, wait_seconds=10)
            assert window.output == "got it\n"


@pytest.mark.parametrize("wrong", ["", "../x", "proc-00000000", "x" * 10_000, "proc-\0"])
async def test_an_id_that_is_none_is_one_sentence(session: moorage.Session, wrong: str) -> None:
    await session.run("true")
    for ask in (session.processes.get, session.processes.stop, session.processes.read):
        with pytest.raises(InvalidArguments) as error:
            await ask(wrong)
        assert "\n" not in error.value.message
        assert error.value.message.startswith("No background process of this session has the id")
