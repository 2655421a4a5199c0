"""What an extension may use, and what it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

import moorage
from moorage.connection.host_end import HostConnection
from moorage.errors import ConfigError, ProtocolMismatch, UnknownTool
from moorage.extensions.catalogue import extension_names, load_extension
from moorage.host.extending.notices import MOST_NOTICES, Notice, Notices
from moorage.policy.permission import Effect
from moorage.protocol.workspace_tools import ToolArguments, ToolSpec

pytestmark = pytest.mark.needs("landlock")


class Probe:
    """An extension that gives its host to the test."""

    name = "probe"
    guidance = "Use probe_look."
    specs = (
        ToolSpec(
            name="probe_look", effect=Effect.READ, arguments=ToolArguments, description="Look."
        ),
    )

    def __init__(self) -> None:
        self.host = None
        self.is_closed = False

    async def open(self, host):
        self.host = host
        return {"probe_look": self._look}

    async def aclose(self) -> None:
        self.is_closed = True

    async def _look(self, _):
        return moorage.ToolResult()


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[moorage.Session]:
    (tmp_path / "workspace").mkdir()
    place = {"workspace": tmp_path / "workspace", "home": tmp_path / "home"}
    with anyio.fail_after(50):
        async with moorage.open_session(**place) as opened:
            yield opened


@pytest.fixture
async def probe(session) -> Probe:
    enabled = Probe()
    await session.extensions.enable(enabled)
    return enabled


async def test_a_location_tells_and_grants_nothing(session, probe: Probe) -> None:
    processes = probe.host.processes
    location = processes.process_environment()
    assert (location.session, location.backend) == (session.id, "local")
    assert (location.workspace, location.mode) == (session.workspace, "standard")
    accepted = await processes.start("pwd", tty=False)
    assert accepted.location == location
    # Handed back in whatever way, it changes nothing.
    elsewhere = msgspec.structs.replace(location, workspace="/", mode="unconfined")
    with pytest.raises(TypeError):
        await processes.start("pwd", location=elsewhere)
    options = {"operation_id": "again", **msgspec.structs.asdict(elsewhere)}
    with pytest.raises(TypeError):
        await processes.start("pwd", **options)
    assert [each.id for each in await processes.list()] == [accepted.record.id]
    assert processes.process_environment() == location


async def test_processes_are_those_of_its_session_and_their_events(session, probe: Probe) -> None:
    processes = probe.host.processes
    async with processes.events() as events:
        record = (await processes.start("read line; echo $line", tty=False)).record
        await processes.write(record.id, "said\n")
        text = "".join([window.output async for window in processes.follow(record.id)])
        assert text == "said\n"
        assert (await events.receive()).type == "started"
    assert await processes.get(record.id) == await session.processes.get(record.id)


async def test_a_start_without_the_capability_is_refused_before_anything_is_sent(
    session, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.run("true")
    sent = []
    monkeypatch.setattr(HostConnection, "capabilities", frozenset())
    monkeypatch.setattr(HostConnection, "request", lambda *facts, **_: sent.append(facts))
    with pytest.raises(ProtocolMismatch, match="cannot start background processes"):
        await probe.host.processes.start("true")
    assert sent == []


async def test_its_calls_stand_in_the_record_as_its_own(session, probe: Probe, tmp_path) -> None:
    await probe.host.call("bash", {"command": "true"})
    record = (tmp_path / "home" / "state" / "sessions" / session.id / "record.ndjson").read_text()
    assert '"actor":"extension:probe"' in record


async def test_a_second_one_of_its_name_is_refused(session, probe: Probe) -> None:
    assert probe.host is not None
    with pytest.raises(ConfigError, match="there already"):
        await session.extensions.enable(Probe())


async def test_a_broken_extension_costs_its_tools_and_not_the_session(
    session, probe: Probe
) -> None:
    async def fail() -> None:
        raise RuntimeError("broken")

    probe.host.start_soon(fail)
    while session.extensions.handler("probe_look") is not None:
        await anyio.lowlevel.checkpoint()
    with pytest.raises(UnknownTool, match="has failed"):
        await session.call("probe_look")
    assert (await session.run("echo on")).stdout == "on\n"
    await session.extensions.disable("probe")
    assert probe.is_closed


async def test_closing_the_session_closes_its_extensions(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    probe = Probe()
    place = {"workspace": tmp_path / "workspace", "home": tmp_path / "home"}
    async with moorage.open_session(**place) as session:
        await session.extensions.enable(probe)
    assert probe.is_closed
    assert [each async for each in session.extensions.notices] == []


async def test_an_extension_that_is_not_installed_is_an_error_that_names_those_that_are(
    tmp_path: Path,
) -> None:
    assert "monitor" in extension_names()
    assert load_extension("monitor") is not load_extension("monitor")
    with pytest.raises(ConfigError, match=r"no extension 'nothing'.*monitor"):
        async with moorage.open_session(
            workspace=tmp_path, home=tmp_path.with_suffix(".home"), extensions=["nothing"]
        ):
            pass


async def test_the_configuration_enables_extensions(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.json").write_text('{"extensions": ["monitor"]}')
    place = {"workspace": tmp_path / "workspace", "home": home}
    async with moorage.open_session(**place) as session:
        assert session.toolbox.spec("monitor_start")
    async with moorage.open_session(**place, extensions=[]) as session:
        assert session.toolbox.search("monitor") == ()


async def test_notices_are_told_once_and_a_flood_drops_the_oldest() -> None:
    notices = Notices()
    for number in range(MOST_NOTICES + 3):
        notices.post(Notice(source="probe", text=str(number)))
    first, second = notices.take(at_most=2)
    assert first.text == "(3 earlier notices were dropped.)\n3"
    assert second.text == "4"
    assert len(notices.take()) == MOST_NOTICES - 2
    assert notices.take() == []
