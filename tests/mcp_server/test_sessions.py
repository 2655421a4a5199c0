from __future__ import annotations

import anyio
import pytest

from moorage.errors import ConnectionLost, ProvisionError, ShutdownIncomplete
from moorage.mcp_server.options import McpLimits
from moorage.mcp_server.sessions import open_sessions

LIMITS = McpLimits()


async def test_no_session_is_opened_before_the_first_call(house) -> None:
    async with open_sessions(house.opener, limits=LIMITS) as sessions:
        assert not house.asked_for
        await sessions.shared().call("bash", {"command": "a"})
        await sessions.shared().call("bash", {"command": "b"})
    assert house.asked_for == [None]
    assert len(house.sessions[0].calls) == 2


async def test_calls_that_come_at_once_open_one_session(house) -> None:
    async with (
        open_sessions(house.opener, limits=LIMITS) as sessions,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(10):
            tasks.start_soon(sessions.shared().call, "bash", {})
    assert len(house.sessions) == 1


async def test_each_mcp_session_has_a_session_of_its_own_that_ends_with_it(house) -> None:
    async with open_sessions(house.opener, limits=LIMITS) as sessions:
        for name in ("one", "two"):
            await sessions.bind(name).call("bash", {})
        await sessions.end("one")
        assert house.closed == ["session-0"]
        assert sessions.of("one") is None
        assert sessions.of("two") is not None
    assert house.closed == ["session-0", "session-1"]


async def test_ending_an_mcp_session_that_never_called_anything_is_nothing(house) -> None:
    async with open_sessions(house.opener, limits=LIMITS) as sessions:
        sessions.bind("quiet")
        await sessions.end("quiet")
        await sessions.end("unknown")
    assert not house.asked_for


async def test_a_session_that_cannot_be_had_is_tried_again_by_the_next_call(house) -> None:
    house.refusal = ProvisionError("no image.")
    async with open_sessions(house.opener, limits=LIMITS) as sessions:
        with pytest.raises(ProvisionError, match="no image"):
            await sessions.shared().call("bash", {})
        house.refusal = None
        await sessions.shared().call("bash", {})
    assert house.closed == ["session-0"]


async def test_a_call_after_the_end_is_refused(house) -> None:
    async with open_sessions(house.opener, limits=LIMITS) as sessions:
        binding = sessions.bind("one")
        await sessions.end("one")
        with pytest.raises(ConnectionLost, match="has ended"):
            await binding.call("bash", {})


async def test_an_idle_session_is_closed_and_the_same_one_opened_again(house) -> None:
    async with open_sessions(house.opener, limits=LIMITS, idle_seconds=0.001) as sessions:
        with anyio.fail_after(5):
            await sessions.shared().call("bash", {})
            await house.until_closed(1)
            await sessions.shared().call("bash", {})
    assert house.asked_for == [None, "session-0"]


async def test_a_session_with_a_running_call_is_not_idle(house) -> None:
    hanging = house.hang("bash")
    async with (
        open_sessions(house.opener, limits=LIMITS, idle_seconds=0.001) as sessions,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(sessions.shared().call, "bash", {})
        with anyio.fail_after(5):
            await hanging.begun.wait()
            await anyio.wait_all_tasks_blocked()
        assert not house.closed
        hanging.released.set()


async def test_only_so_many_calls_of_a_session_run_at_a_time(house) -> None:
    hanging = house.hang("bash")
    limits = McpLimits(concurrent_calls=1)
    async with (
        open_sessions(house.opener, limits=limits) as sessions,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(2):
            tasks.start_soon(sessions.shared().call, "bash", {})
        with anyio.fail_after(5):
            await hanging.begun.wait()
            await anyio.wait_all_tasks_blocked()
        assert len(house.sessions[0].calls) == 1
        hanging.released.set()
    assert len(house.sessions[0].calls) == 2


@pytest.mark.parametrize(
    "failure",
    [
        ShutdownIncomplete("something remains."),
        RuntimeError("a bug"),
        ExceptionGroup("", [OSError()]),
    ],
)
async def test_a_session_that_ends_badly_takes_no_other_with_it(
    house, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sessions(house.opener, limits=LIMITS) as sessions:
        await sessions.bind("one").call("bash", {})
        await sessions.bind("two").call("bash", {})
        house.failure_at_close = failure
        await sessions.end("one")
        house.failure_at_close = None
        two = sessions.of("two")
        assert two is not None
        await two.call("bash", {})
    assert "session-0" in caplog.text


async def test_a_session_that_does_not_end_holds_the_server_no_longer_than_the_grace(
    house,
) -> None:
    house.hang_at_close = True
    limits = McpLimits(close_grace_seconds=0.001)
    with anyio.fail_after(5):
        async with open_sessions(house.opener, limits=limits) as sessions:
            await sessions.shared().call("bash", {})
