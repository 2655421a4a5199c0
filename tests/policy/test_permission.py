from __future__ import annotations

import pytest

from moorage.errors import ConfigError, Refused
from moorage.policy.decide import check_call
from moorage.policy.permission import Effect, PermissionMode, allows, is_within, parse_mode
from moorage.policy.workspace_rules import check_apart

READ_ONLY, STANDARD, UNCONFINED = PermissionMode


def test_empty_text_is_standard_and_unknown_text_is_never_a_wider_mode() -> None:
    assert parse_mode("") is STANDARD
    assert [parse_mode(mode.value) for mode in PermissionMode] == list(PermissionMode)
    for text in ("Standard", "root", "unconfined "):
        with pytest.raises(ConfigError, match="unknown permission mode"):
            parse_mode(text)


def test_modes_are_ordered_by_how_much_they_allow() -> None:
    assert [is_within(mode, STANDARD) for mode in PermissionMode] == [True, True, False]
    assert [mode.is_restricted for mode in PermissionMode] == [True, True, False]


def test_only_read_only_forbids_writing_and_it_lets_commands_run() -> None:
    assert [allows(READ_ONLY, effect) for effect in Effect] == [True, False, True]
    assert all(allows(mode, effect) for mode in (STANDARD, UNCONFINED) for effect in Effect)


def test_a_call_is_refused_with_its_reason() -> None:
    check_call("read_file", Effect.READ, mode=READ_ONLY, highest=READ_ONLY)
    with pytest.raises(Refused) as caught:
        check_call("write_file", Effect.WRITE, mode=READ_ONLY, highest=STANDARD)
    assert caught.value.reason == "boundary_denied"
    with pytest.raises(Refused) as caught:
        check_call("read_file", Effect.READ, mode=UNCONFINED, highest=STANDARD)
    assert caught.value.reason == "mode_not_granted"


@pytest.mark.parametrize("folder", ["/home/me", "/home/me/.moorage", "/home/me/.moorage/state"])
def test_a_workspace_around_or_inside_the_home_is_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="overlap"):
        check_apart([folder], ["/home/me/.moorage"])


def test_a_workspace_beside_the_home_is_fine() -> None:
    check_apart(["/home/me/project", "/home/me/.moorage-other"], ["/home/me/.moorage"])
