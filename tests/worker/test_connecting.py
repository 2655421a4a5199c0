"""The way to a worker that outlives it: the real program, twice and more."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from moorage.connection.host_end import HostConnection
from moorage.errors import ConnectionLost, Refused
from moorage.protocol.binding import PROTOCOL_VERSION, Binding
from moorage.protocol.processes import ProcessRecord, StartRequest
from moorage.protocol.secret import Secret
from moorage.transports.standing_lock import holder
from moorage.transports.stdio import ChildTransport
from moorage.worker.__main__ import main as work
from moorage.worker.staying import connecting
from moorage.worker.staying.connecting import folder_of


def main(arguments: list[str]) -> int:
    return connecting.main(arguments, work)


pytestmark = pytest.mark.needs("landlock")

PROGRAM = (sys.executable, "-P", "-m", "moorage.worker", "connect")
TOKEN = Secret("t" * 64)
Connect = Callable[..., AbstractAsyncContextManager[HostConnection]]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def options(state: Path) -> tuple[str, ...]:
    return ("--name", "here-s1", f"--state={state}")


@pytest.fixture
async def connect(tmp_path: Path, options: tuple[str, ...]) -> AsyncIterator[Connect]:
    variables = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    @asynccontextmanager
    async def reach(token: Secret = TOKEN, *more: str) -> AsyncIterator[HostConnection]:
        argv = (*PROGRAM, *options, *more)
        transport = await ChildTransport.start(argv, variables=variables)
        async with HostConnection(transport, token) as connection:
            binding = Binding(
                version=PROTOCOL_VERSION, root=str(tmp_path / "ws"), session="s1", identity="here"
            )
            await connection.initialize(binding)
            yield connection

    with anyio.fail_after(50):
        yield reach
    assert main([*options, "--end"]) == 0


async def pid_of(connection: HostConnection) -> int:
    request = StartRequest(operation_id="o", command="exec sleep 1000", actor="a")
    return (await connection.request("process/start", request, ProcessRecord)).pid


async def test_the_same_worker_answers_the_next_time(connect: Connect) -> None:
    async with connect() as first:
        pid = await pid_of(first)
    async with connect() as second:
        (record,) = await second.request("process/list", None, tuple[ProcessRecord, ...])
        assert (record.pid, record.status) == (pid, "running")


async def test_the_first_token_counts_and_another_is_refused(connect: Connect) -> None:
    async with connect() as first:
        with pytest.RaisesGroup(Refused, flatten_subgroups=True, allow_unwrapped=True):
            async with connect(Secret("x" * 64)):
                raise AssertionError("it was let in")
        assert await pid_of(first)


async def test_it_can_be_ended_from_outside_and_the_next_one_is_another(
    connect: Connect, options: tuple[str, ...], state: Path
) -> None:
    async with connect() as first:
        await pid_of(first)
    folder = folder_of("here-s1", str(state))
    before = holder(folder)
    assert before
    assert main([*options, "--end"]) == 0
    assert holder(folder) is None
    async with connect() as second:
        (record,) = await second.request("process/list", None, tuple[ProcessRecord, ...])
        assert record.terminal_cause == "requested_stop"
    assert holder(folder) not in {None, before}


async def test_it_can_be_started_ahead(
    connect: Connect, options: tuple[str, ...], state: Path
) -> None:
    assert main([*options, "--start"]) == 0
    ahead = holder(folder_of("here-s1", str(state)))
    assert ahead
    async with connect():
        assert holder(folder_of("here-s1", str(state))) == ahead


async def test_why_no_worker_came_up_is_said(connect: Connect) -> None:
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConnectionLost, match="invalid choice: 'wide'"),
        flatten_subgroups=True,
        allow_unwrapped=True,
    ):
        async with connect(TOKEN, "--mode=wide"):
            pass


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_a_name_is_one_part_of_a_path(
    name: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--name", name, f"--state={state}", "--end"]) == 1
    assert "cannot name a worker" in capsys.readouterr().err
    assert not state.exists()


def test_a_state_that_cannot_be_made_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["--name", "n", f"--state={tmp_path / 'file'}"]) == 1
    assert "cannot keep its state" in capsys.readouterr().err


def test_ending_none_is_no_error(options: tuple[str, ...]) -> None:
    assert main([*options, "--end"]) == 0
