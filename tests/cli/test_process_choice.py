"""Which process a name means, with workers of two sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import click
import pytest

from moorage.cli import process_choice
from moorage.cli.process_choice import Listed, complete_processes
from moorage.errors import BackendUnavailable

pytestmark = pytest.mark.needs("landlock")


@pytest.fixture
def places(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return home


def start(command_line: Any, session: str, *options: str) -> str:
    ended = command_line("start", "--name", session, *options, "-c", "sleep 1000")
    assert ended.code == 0, ended.err
    return str(ended.out.decode().strip())


def complete(incomplete: str) -> list[str]:
    option = click.Argument(["process"])
    return complete_processes(click.Context(click.Command("x")), option, incomplete)


def test_names_complete_to_living_processes(places: Path, command_line: Any) -> None:
    assert complete("") == []
    process = start(command_line, "site")
    assert complete("") == [process]
    assert complete("proc-") == [process]
    assert complete("si") == [f"site/{process}"]
    assert complete("other") == []


def test_a_completion_that_fails_offers_nothing(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(session: str | None) -> Any:
        raise BackendUnavailable("no.")

    monkeypatch.setattr(process_choice, "listed", fail)
    assert complete("") == []


def test_a_completion_that_takes_too_long_offers_nothing(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(session: str | None) -> Any:
        await anyio.sleep_forever()

    monkeypatch.setattr(process_choice, "listed", hang)
    monkeypatch.setattr(process_choice, "COMPLETION_SECONDS", 0.01)
    assert complete("") == []


def test_a_session_that_cannot_be_asked_does_not_hide_the_others(
    places: Path, command_line: Any
) -> None:
    process = start(command_line, "fine")
    hidden = start(command_line, "spoilt")
    listed = command_line("ps", "--json").document["processes"]
    (spoilt,) = (each["session"] for each in listed if each["session_name"] == "spoilt")
    grants = places / "state" / "sessions" / spoilt / "worker" / "grants.json"
    grants.write_text("{}")

    document = command_line("ps", "--json")
    assert document.code == 1
    assert [each["id"] for each in document.document["processes"]] == [process]
    assert [each["session"] for each in document.document["unreachable"]] == [spoilt]
    table = command_line("ps")
    assert (table.code, process.encode() in table.out) == (1, True)
    assert f"session {spoilt}: nothing says".encode() in table.err
    assert command_line("stop", process).code == 0
    unknown = command_line("stop", hidden)
    assert (unknown.code, f"{spoilt} was not asked".encode() in unknown.err) == (127, True)
    assert command_line("ps", "--session", "spoilt").code == 125


def test_an_id_that_several_sessions_have_must_be_qualified(
    places: Path, command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(command_line, "one")
    real = process_choice.listed

    async def twice(session: str | None) -> Any:
        found, unreachable = await real(session)
        return [*found, *(Listed("s-2", "two", each.record) for each in found)], unreachable

    monkeypatch.setattr(process_choice, "listed", twice)
    ended = command_line("logs", process)
    assert ended.code == 125
    assert f"Name one of one/{process}, two/{process}.".encode() in ended.err
    assert command_line("logs", f"one/{process}").code == 0


def test_a_list_hides_what_ended_long_ago_and_says_so(places: Path, command_line: Any) -> None:
    first = start(command_line, "site")
    second = command_line("start", "--session", "site", "-c", "sleep 1000").out.decode().strip()
    assert command_line("stop", first, second).code == 0
    listed = command_line("ps", "--last", "1")
    assert listed.out.count(b"\n") == 2
    assert b"1 earlier process not shown; -n 0 does." in listed.err
    assert command_line("ps", "-n", "0").err == b""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("logs", "-f", "--json", "p"), "scripts go on at its end_offset"),
        (("logs", "--tail", "1", "--since-offset", "1", "p"), "not both"),
        (("ps", "-f"), "--follow redraws a terminal"),
        (("kill",), "Missing argument 'PROCESS...'"),
        (("start", "-c", "x", "y"), "not both"),
    ],
)
def test_what_does_not_fit_together_is_said(
    places: Path, command_line: Any, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = command_line(*arguments)
    told = (ended.out + ended.err).decode()
    assert (ended.code, sentence in told) == (2, True)


def test_a_start_is_told_as_json(places: Path, command_line: Any) -> None:
    ended = command_line("start", "--name", "site", "--pipes", "--json", "--", "sleep", "1000")
    assert (ended.document["session_name"], ended.document["tty"]) == ("site", False)
    assert ended.document["command"] == "sleep 1000"


def test_where_workers_end_with_their_host_nothing_is_started(
    command_line: Any, session: Any
) -> None:
    ended = command_line("start", "--name", "far", "--", "true")
    assert (ended.code, b"nothing was started" in ended.err) == (125, True)
