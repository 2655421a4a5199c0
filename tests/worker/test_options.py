from __future__ import annotations

import json
from pathlib import Path

import pytest

from moorage.errors import ConfigError
from moorage.policy.permission import PermissionMode
from moorage.worker.__main__ import parser
from moorage.worker.options import WorkerOptions, options_of


def read(*arguments: str) -> WorkerOptions:
    return options_of(parser().parse_args(arguments))


def test_what_the_user_granted_is_read_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    options = read(
        f"--state={tmp_path}/link", "--mode=read_only", f"--writable={tmp_path}/link", "--hide=/a"
    )
    assert options.state == tmp_path / "real"
    assert options.highest is PermissionMode.READ_ONLY
    assert options.writable_roots == (f"{tmp_path}/real",)
    assert options.hidden_paths == ("/a", f"{tmp_path}/real")
    assert options.login_plan().mode is PermissionMode.READ_ONLY


def test_without_options_the_worker_is_confined_and_keeps_its_state_in_the_users_home() -> None:
    options = read()
    assert options.highest is PermissionMode.STANDARD
    assert options.state.name == ".moorage-worker"
    assert read("--mode=unconfined").login_plan().mode is PermissionMode.UNCONFINED


def test_the_workers_own_state_is_hidden_unless_it_lies_in_what_is() -> None:
    options = read()
    assert options.hidden_paths == options.login_plan().hidden_paths == (str(options.state),)
    assert read("--state=/home/m/state", "--hide=/home/m").hidden_paths == ("/home/m",)


def test_a_confinement_provider_travels_as_one_argument() -> None:
    fields = {
        "argv": ["/usr/bin/bwrap", "--ro-bind", "/", "/"],
        "enforcement": "full",
        "hidden": ["--tmpfs", "{path}"],
        "writable": ["--bind", "{path}", "{path}"],
    }
    provider = read(f"--confine-with={json.dumps(fields)}").confinement
    assert provider is not None
    assert provider.argv[0] == "/usr/bin/bwrap"
    with pytest.raises(ConfigError, match='only "full"'):
        read(f"--confine-with={json.dumps(fields | {'enforcement': 'some'})}")
