"""The monitor in a real session: what its script prints is told line by line, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

import moorage
from moorage.errors import ConfigError, InvalidArguments, Refused, UnknownTool
from moorage.extensions.monitor import LONGEST_EVENT, Monitor
from moorage.host.extending.notices import Notice

pytestmark = pytest.mark.needs("landlock")

LONG_ENOUGH = 30
GATE = "until test -e go; do sleep 0.01; done"


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[moorage.Session]:
    (tmp_path / "workspace").mkdir()
    place = {"workspace": tmp_path / "workspace", "home": tmp_path / "home"}
    with anyio.fail_after(50):
        async with moorage.open_session(**place, extensions=["monitor"]) as opened:
            yield opened


async def watch(session: moorage.Session, command: str) -> str:
    """Start a monitor as a program does that knows nothing of it, and return its id."""
    (found,) = session.toolbox.search("start monitor")
    described = session.toolbox.describe(found.name)
    (required,) = described["input_schema"]["required"]
    result = await session.call(described["name"], {required: command})
    return str(result.structured_content["monitor_id"])


async def heard(session: moorage.Session, count: int) -> list[Notice]:
    notices: list[Notice] = []
    with anyio.fail_after(LONG_ENOUGH):
        async for notice in session.extensions.notices:
            notices.append(notice)
            if len(notices) == count:
                break
    return notices


async def test_each_complete_line_is_an_event_and_a_half_one_only_at_the_end(session) -> None:
    monitor = await watch(session, f"printf 'one\\ntwo\\nth'; {GATE}; printf 'ree\\nfour'")
    first = await heard(session, 2)
    assert [each.data["line"] for each in first] == ["one", "two"]
    assert first[0].text == f"[Monitor {monitor}] event 1: one"
    assert session.extensions.notices.take() == []
    await session.call("bash", {"command": "touch go"})
    rest = await heard(session, 3)
    assert [each.data.get("line") for each in rest] == ["three", "four", None]
    assert rest[2].text == f"[Monitor {monitor}] has ended with exit code 0"


async def test_stderr_tells_nobody_and_is_kept_for_diagnosis(session) -> None:
    monitor = await watch(session, f"echo to nobody >&2; {GATE}; echo seen; exec sleep 1000")
    await session.call("bash", {"command": "touch go"})
    (only,) = await heard(session, 1)
    assert only.data["line"] == "seen"
    read = await session.call("monitor_read", {"monitor_id": monitor})
    assert read.structured_content["stderr"] == "to nobody"
    assert [each["line"] for each in read.structured_content["events"]] == ["seen"]


async def test_a_script_that_fails_says_why_at_its_end(session) -> None:
    await watch(session, "if then")
    (only,) = await heard(session, 1)
    assert "has ended with exit code 2\nstderr:\n" in only.text
    assert "syntax error" in only.text


async def test_a_stopped_monitor_says_no_more(session) -> None:
    monitor = await watch(session, "echo one; sleep 1000")
    await heard(session, 1)
    await session.call("monitor_stop", {"monitor_id": monitor})
    assert session.extensions.notices.take() == []
    (listed,) = (await session.call("monitor_list")).structured_content["monitors"]
    assert (listed["monitor_id"], listed["events"]) == (monitor, 1)
    assert listed["process"]["terminal_cause"] == "requested_stop"


async def test_disabling_removes_tools_and_guidance_and_stops_what_runs(session) -> None:
    assert "monitor" in session.extensions.guidance
    monitor = await watch(session, "sleep 1000")
    await session.extensions.disable("monitor")
    assert (await session.processes.get(monitor)).terminal_cause == "requested_stop"
    assert session.extensions.guidance == ""
    assert session.toolbox.search("monitor") == ()
    assert [tool.name for tool in session.tools if "monitor" in tool.name] == []
    with pytest.raises(UnknownTool):
        await session.call("monitor_start", {"command": "true"})
    with pytest.raises(ConfigError, match="no extension 'monitor'"):
        await session.extensions.disable("monitor")
    await session.extensions.enable(Monitor())
    assert session.toolbox.spec("monitor_list")


async def test_its_script_runs_in_the_sessions_environment_and_mode(
    session, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    await watch(session, f"pwd; touch {outside} || echo refused")
    notices = await heard(session, 2)
    assert [each.data["line"] for each in notices] == [session.workspace, "refused"]
    assert not outside.exists()


async def test_no_completion_is_owed_for_a_monitor(session) -> None:
    await watch(session, "true")
    await heard(session, 1)
    assert await session.completions().take() == []


async def test_a_line_without_end_is_cut_and_secrets_are_masked(session) -> None:
    secret = "sk-" + "a1B2" * 9
    await watch(session, f"head -c 100000 /dev/zero | tr '\\0' x; echo; echo {secret}")
    first, second = await heard(session, 2)
    assert first.data["line"] == "x" * LONGEST_EVENT + " (cut)"
    assert secret not in second.text


async def test_bad_input_is_one_sentence_and_starts_nothing(session) -> None:
    for name, arguments, problem in (
        ("monitor_start", {"command": "  "}, "blank"),
        ("monitor_start", {"script": "true"}, "unknown field"),
        ("monitor_read", {"monitor_id": "proc-00000000"}, "no monitor of this session"),
        ("monitor_read", {"monitor_id": "x", "after": -1}, ">= 0"),
    ):
        with pytest.raises(InvalidArguments, match=problem):
            await session.call(name, arguments)
    assert await session.processes.list() == ()


async def test_a_reader_that_comes_late_is_told_how_many_events_are_gone(session) -> None:
    monitor = await watch(session, "seq 1500; exec sleep 1000")
    with anyio.fail_after(LONG_ENOUGH):
        async for notice in session.extensions.notices:
            if notice.data["number"] == 1500:
                break
    read = await session.call("monitor_read", {"monitor_id": monitor, "after": 100})
    assert "(400 earlier events are no longer kept.)" in read.content[0].text
    assert len(read.structured_content["events"]) == 1000


async def test_in_read_only_mode_only_reading_scripts_run(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    place = {"workspace": tmp_path / "workspace", "home": tmp_path / "home"}
    async with moorage.open_session(**place, mode="read_only", extensions=["monitor"]) as session:
        with pytest.raises(Refused):
            await session.call("monitor_start", {"command": "touch x"})
