from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.errors import ConfigError, NotFound
from moorage.mcp_server.opening import (
    announce,
    check_token_place,
    default_token_file,
    place_of,
    plan_of,
    session_opener,
)
from moorage.mcp_server.options import Options
from moorage.policy.permission import PermissionMode


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., Options]:
    (tmp_path / "workspace").mkdir()

    def make(**changes: Any) -> Options:
        chosen = {"workspace": tmp_path / "workspace", "home": tmp_path / "home"}
        return Options(**chosen | changes)

    return make


def test_a_plan_says_where_and_how_far_and_keeps_nothing(options, tmp_path: Path) -> None:
    place = place_of(plan_of(options(mode="read_only")))
    assert place == ("local", str(tmp_path / "workspace"), PermissionMode.READ_ONLY, (), "")
    assert not (tmp_path / "home").exists()


async def test_a_session_is_opened_once_and_can_be_opened_again_by_its_id(options) -> None:
    opener = session_opener(options())
    async with opener(None) as first:
        session_id = first.id
    async with opener(session_id) as again:
        assert again.id == session_id
    async with opener(None) as another:
        assert another.id != session_id


async def test_a_name_begins_a_session_and_later_goes_on_with_it(options) -> None:
    opener = session_opener(options(session_name="mine", mode="read_only"))
    async with opener(None) as first:
        session_id = first.id
    async with session_opener(options(session_name="mine"))(None) as again:
        assert again.id == session_id
    assert place_of(plan_of(options(session_name="mine"))).mode is PermissionMode.READ_ONLY


async def test_a_saved_session_is_never_widened_by_the_command_line(options) -> None:
    async with session_opener(options(session_name="mine", mode="read_only"))(None):
        pass
    with pytest.raises(ConfigError, match="read_only"):
        plan_of(options(session_name="mine", mode="unconfined"))


def test_an_unknown_id_is_an_error_and_never_a_new_session(options) -> None:
    with pytest.raises(NotFound, match="no-such-session"):
        plan_of(options(session_id="no-such-session"))


def test_an_id_and_a_name_together_are_refused(options) -> None:
    with pytest.raises(ConfigError, match="not by both"):
        plan_of(options(session_id="a", session_name="b"))


def test_a_workspace_around_the_home_is_refused(options, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        plan_of(options(workspace=tmp_path))


def test_the_token_lies_in_the_home_by_default(options, tmp_path: Path) -> None:
    assert default_token_file(options()).is_relative_to(tmp_path / "home")


def test_a_token_behind_a_link_into_the_workspace_is_refused(options, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "workspace")
    with pytest.raises(ConfigError, match="every tool can read it"):
        check_token_place(tmp_path / "link" / "token", plan_of(options()))
    check_token_place(tmp_path / "token", plan_of(options()))


def test_what_a_person_is_told_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    announce("Moorage serves MCP at an address")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "Moorage serves MCP at an address\n")
