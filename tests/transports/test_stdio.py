"""A child as a transport: its bytes, its complaints, its end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from moorage.errors import BackendUnavailable, ShutdownIncomplete
from moorage.transports.stdio import ChildLimits, ChildTransport

BRISK = ChildLimits(diagnosis_seconds=5, drain_seconds=0.05, kill_seconds=5)


async def start(script: str, *, grace_seconds: float = 5.0, **options: object) -> ChildTransport:
    return await ChildTransport.start(
        ["/bin/bash", "-c", script],
        variables={"PATH": os.environ["PATH"]},
        grace_seconds=grace_seconds,
        limits=BRISK,
        **options,  # type: ignore[arg-type]
    )


@asynccontextmanager
async def watched(transport: ChildTransport) -> AsyncIterator[ChildTransport]:
    """Run what the owner of a connection runs."""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.watch)
            yield transport
            tasks.cancel_scope.cancel()
        await transport.aclose()


async def read_all(transport: ChildTransport) -> bytes:
    received = b""
    while data := await transport.receive():
        received += data
    return received


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


async def test_bytes_go_to_its_input_and_come_from_its_output() -> None:
    async with watched(await start("cat")) as transport:
        await transport.send(b"one\n")
        assert await transport.receive() == b"one\n"
        assert not transport.is_torn
        await transport.close_sending()
        assert await transport.receive() == b""


async def test_it_gets_exactly_the_variables_that_were_given() -> None:
    transport = await ChildTransport.start(["/usr/bin/env"], variables={"ONLY": "this"})
    async with watched(transport):
        assert await read_all(transport) == b"ONLY=this\n"


async def test_no_shell_reads_its_arguments() -> None:
    argv = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "$HOME; exit 3", "*"]
    async with watched(await ChildTransport.start(argv, variables={})) as transport:
        assert await read_all(transport) == b"['$HOME; exit 3', '*']\n"
        assert "exited with 0" in await transport.diagnose()


async def test_only_the_descriptors_that_were_named_reach_it() -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"token")
    os.close(write_fd)
    script = f"cat <&{read_fd}; ls /proc/self/fd | wc -l"
    async with watched(await start(script, pass_fds=(read_fd,))) as transport:
        # 0, 1, 2, the one that was passed, and the listing's own.
        assert await read_all(transport) == b"token5\n"
    os.close(read_fd)


async def test_it_leads_a_session_of_its_own() -> None:
    async with watched(await start("ps -o pid=,sid=,pgid= -p $$")) as transport:
        ids = (await read_all(transport)).split()
        assert {int(word) for word in ids} == {transport.pid}


@pytest.mark.parametrize("program", ["/no/such/program", "/etc/passwd", "nul\0"])
async def test_a_program_that_cannot_be_started_is_named(program: str) -> None:
    with pytest.raises(BackendUnavailable, match=r"cannot start .*Check that it is installed"):
        await ChildTransport.start([program], variables={})


async def test_a_failed_start_leaves_no_descriptor_open() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BackendUnavailable):
        await ChildTransport.start(["/no/such/program"], variables={})
    assert os.listdir("/proc/self/fd") == before


async def test_the_diagnosis_has_the_exit_code_and_the_last_words() -> None:
    async with watched(await start("echo first >&2; echo 'no disk' >&2; exit 7")) as transport:
        assert await transport.receive() == b""
        diagnosis = await transport.diagnose()
    assert diagnosis == "the worker process exited with 7; its last words: first\nno disk"


async def test_the_diagnosis_names_the_signal() -> None:
    async with watched(await start("kill -9 $$")) as transport:
        assert await transport.receive() == b""
        assert await transport.diagnose() == "the worker process was ended by signal 9"


async def test_only_the_last_8192_bytes_of_its_complaints_are_kept() -> None:
    script = "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo END >&2"
    async with watched(await start(script)) as transport:
        assert await transport.receive() == b""
        tail = (await transport.diagnose()).partition("its last words: ")[2]
    assert len(tail) == 8192 - 1
    assert tail.endswith("xxxEND")


async def test_a_diagnosis_of_a_child_that_runs_on_is_bounded() -> None:
    transport = await ChildTransport.start(
        ["/bin/sh", "-c", "exec >&-; read line"],
        variables={},
        limits=ChildLimits(diagnosis_seconds=0.01),
    )
    async with watched(transport):
        assert await transport.receive() == b""
        assert await transport.diagnose() == "the worker process still runs"


async def test_the_end_of_its_input_is_the_polite_request_to_end() -> None:
    transport = await start("cat; echo done >&2; exit 3")
    async with watched(transport):
        await transport.aclose()
        await transport.aclose()
        assert "exited with 3; its last words: done" in await transport.diagnose()


async def test_output_that_nobody_reads_does_not_hold_its_end() -> None:
    transport = await start("cat >/dev/null; head -c 1000000 /dev/zero; exit 3")
    with anyio.fail_after(5):
        await transport.aclose()
        assert "exited with 3" in await transport.diagnose()


async def test_a_child_that_ignores_the_end_of_its_input_is_killed_with_its_whole_group() -> None:
    transport = await start(
        "trap '' TERM; sleep 600 & echo $!; wait; sleep 600", grace_seconds=0.05
    )
    grandchild = int(await transport.receive())
    with anyio.fail_after(5):
        with pytest.raises(ShutdownIncomplete, match=r"within 0\.05 s and was killed"):
            await transport.aclose()
        while is_alive(grandchild):
            await anyio.lowlevel.checkpoint()
    assert "ended by signal 9" in await transport.diagnose()


async def test_output_held_open_by_offspring_ends_soon_after_the_child() -> None:
    transport = await start("sleep 600 & echo $!")
    grandchild = int(await transport.receive())
    try:
        async with watched(transport):
            assert await transport.receive() == b""
            assert await transport.receive() == b""
    finally:
        os.kill(grandchild, signal.SIGKILL)


async def test_offspring_that_holds_the_output_is_ended_at_the_close() -> None:
    transport = await start("sleep 600 & echo $!")
    with anyio.fail_after(5):
        grandchild = int(await transport.receive())
        await transport.aclose()
        while is_alive(grandchild):
            await anyio.lowlevel.checkpoint()


async def test_output_that_something_beyond_its_group_holds_is_given_up() -> None:
    transport = await start("setsid sleep 600 & echo $!; disown; exit 5")
    grandchild = int(await transport.receive())
    try:
        with anyio.fail_after(5):
            await transport.aclose()
            with pytest.raises(anyio.ClosedResourceError):
                await transport.receive()
            assert "exited with 5" in await transport.diagnose()
    finally:
        os.kill(grandchild, signal.SIGKILL)


async def test_a_close_is_not_cut_short_by_cancellation() -> None:
    transport = await start("cat; exit 4")
    with anyio.fail_after(5):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await transport.aclose()
        assert "exited with 4" in await transport.diagnose()
