from __future__ import annotations

import pytest

from moorage.policy.permission import PermissionMode
from moorage.process.variables import merged_login, prepared, with_terminal

STANDARD, UNCONFINED = PermissionMode.STANDARD, PermissionMode.UNCONFINED


def start(mode: PermissionMode = STANDARD, **variables: str) -> dict[str, str]:
    return prepared(variables, mode=mode, temporary="/t", cache="/c")


def test_no_editor_pager_or_prompt_can_wait_for_somebody() -> None:
    found = start(EDITOR="vim", PAGER="less", GIT_TERMINAL_PROMPT="1", TERM="xterm")
    assert (found["EDITOR"], found["GIT_EDITOR"], found["VISUAL"]) == ("true", "true", "true")
    assert (found["PAGER"], found["GIT_PAGER"]) == ("cat", "cat")
    assert (found["GIT_TERMINAL_PROMPT"], found["TERM"], found["NO_COLOR"]) == ("0", "dumb", "1")


@pytest.mark.parametrize("mode", list(PermissionMode))
def test_what_is_no_business_of_a_command_goes(mode: PermissionMode) -> None:
    found = start(
        mode, GOROOT="/a", GoRoot="/a", MOORAGE_HOME="/m", SHLVL="3", OLDPWD="/x", KEPT="1"
    )
    assert {"GOROOT", "GoRoot", "MOORAGE_HOME", "SHLVL", "OLDPWD"}.isdisjoint(found)
    assert found["KEPT"] == "1"


@pytest.mark.parametrize(
    "name",
    [
        "DOCKER_HOST",
        "TMUX",
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "VSCODE_IPC_HOOK_CLI",
    ],
)
def test_names_of_path_sockets_go_in_restricted_modes_only(name: str) -> None:
    assert name not in start(**{name: "/run/socket"})
    assert start(UNCONFINED, **{name: "/run/socket"})[name] == "/run/socket"


def test_temporary_files_and_tool_caches_are_private_in_restricted_modes() -> None:
    found = start(TMPDIR="/scratch", XDG_CACHE_HOME="/home/me/.cache")
    assert (found["TMPDIR"], found["XDG_CACHE_HOME"]) == ("/t", "/c")
    assert (found["PIP_CACHE_DIR"], found["npm_config_cache"]) == ("/c/pip", "/c/npm")
    free = start(UNCONFINED, XDG_CACHE_HOME="/home/me/.cache")
    assert free["XDG_CACHE_HOME"] == "/home/me/.cache"
    assert "PIP_CACHE_DIR" not in free


def test_a_terminal_gets_only_its_own_variables_back() -> None:
    found = with_terminal(start())
    assert found["TERM"] == "xterm-256color"
    assert "NO_COLOR" not in found
    assert found["PAGER"] == "cat"


def test_what_was_put_on_the_path_of_this_worker_stays_in_front_of_the_login() -> None:
    base = {"PATH": "/venv/bin:/usr/bin", "ONLY_HERE": "1"}
    login = {"PATH": "/usr/local/bin:/usr/bin", "FROM_LOGIN": "1"}
    found = merged_login(base, login)
    assert found["PATH"] == "/venv/bin:/usr/local/bin:/usr/bin"
    assert found["FROM_LOGIN"] == "1"
    assert "PATH" not in merged_login({}, {})
