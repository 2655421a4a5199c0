from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage.app.application import SessionOptions, SessionPlan
from moorage.backends.profile import Profile
from moorage.cli.env_profiles import FLAGS
from moorage.host.session_store import SessionStore

CONFIGURATION = """
[execution_environments]
default = "lab"
[execution_environments.profiles.lab]
backend = "local"
forward_env = ["LANG"]
[execution_environments.profiles.broken]
backend = "local"
cpus = 2
"""


@pytest.fixture(autouse=True)
def _configured(home: Path) -> None:
    (home / "config.toml").write_text(CONFIGURATION)


def test_environments_are_listed_and_a_bad_profile_is_told(command_line: Any) -> None:
    ended = command_line("env", "list")
    assert ended.code == 0
    lines = ended.out.decode().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["local", "lab", "broken"]
    assert lines[2].split()[1:3] == ["local", "yes"]
    assert "profiles.broken.cpus" in lines[3]
    listed = command_line("env", "list", "--json").document
    assert listed[0] == {"name": "local", "backend": "local", "is_default": False, "problem": ""}


def test_the_default_environment_is_shown_when_none_is_named(command_line: Any, home: Path) -> None:
    ended = command_line("env", "show")
    assert ended.code == 0
    assert "forward_env     LANG" in ended.out.decode()
    assert command_line("env", "show", "lab", "--json").document == {
        "name": "lab",
        "is_default": True,
        "configuration": str(home),
        "writable_roots": [],
        "profile": {"backend": "local", "forward_env": ["LANG"]},
    }


@pytest.mark.parametrize("verb", ["show", "check"])
def test_an_unknown_environment_is_127(command_line: Any, verb: str) -> None:
    ended = command_line("env", verb, "lba")
    assert ended.code == 127
    assert b"unknown environment 'lba'; configured are local, lab, broken." in ended.err


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_broken_profile_is_125_and_names_the_field(command_line: Any, verb: str) -> None:
    ended = command_line("env", verb, "broken")
    assert ended.code == 125
    assert b"execution_environments.profiles.broken.cpus" in ended.err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[execution_environments]\ndefault = 3\n", "execution_environments.default"),
        ("colour = 1\n", "unknown field `colour`"),
        ("= 1\n", "is malformed"),
        ("[execution_environments]\ndefault = 'x'\n", "'x', which has no profile"),
        ("writable_roots = ['relative']\n", "writable_roots: 'relative' is not an absolute path"),
        (
            "[confinement]\nargv = ['/x']\nenforcement = 'some'\n",
            "confinement: enforcement is 'some'",
        ),
        (
            "[confinement]\nargv = []\nenforcement = 'full'\n",
            "confinement: a confinement provider starts with the absolute path",
        ),
    ],
)
def test_an_impossible_configuration_is_one_sentence_that_names_the_field(
    command_line: Any, home: Path, text: str, sentence: str
) -> None:
    (home / "config.toml").write_text(text)
    ended = command_line("env", "list")
    assert ended.code == 125
    assert sentence in ended.err.decode()
    assert ended.err.count(b"\n") == 1


def test_two_configuration_files_are_one_too_many(command_line: Any, home: Path) -> None:
    (home / "config.json").write_text("{}")
    ended = command_line("env", "list", "--json")
    assert ended.code == 125
    assert ended.document["error"]["code"] == "config_error"
    assert ended.document["error"]["hint"] == "Keep one of them."


def test_a_home_that_is_no_absolute_folder_is_refused(
    command_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORAGE_HOME", "relative")
    ended = command_line("env", "list")
    assert ended.code == 125
    assert b"MOORAGE_HOME must name an absolute folder" in ended.err


@pytest.fixture
def json_home(home: Path) -> Path:
    (home / "config.toml").unlink()
    return home


def test_a_profile_is_added_by_flags_shown_and_removed(command_line: Any, json_home: Path) -> None:
    words = ("--image", "debian:12", "--network", "none", "--cpus", "1.5", "--memory-mb", "64")
    more = ("--forward-env", "A", "--forward-env", "B", "--host-workspace", str(json_home))
    ended = command_line("env", "add", "box", "--backend", "docker", *words, *more, "--persistent")
    assert ended.code == 0, ended.err
    assert b"moorage env check box" in ended.err
    assert command_line("env", "show", "box", "--json").document["profile"] == {
        "backend": "docker",
        "image": "debian:12",
        "persistent": True,
        "network": "none",
        "cpus": 1.5,
        "memory_mb": 64,
        "forward_env": ["A", "B"],
        "host_workspace": str(json_home),
    }
    taken = command_line("env", "add", "box", "--backend", "local")
    assert taken.code == 125
    assert b"--replace" in taken.err
    replaced = command_line(
        "env", "add", "box", "--backend", "command", "--command", "a 'b c'", "--replace",
        "--default", "--json",
    )  # fmt: skip
    assert replaced.document["profile"] == {"backend": "command", "command": ["a", "b c"]}
    assert command_line("env", "show", "--json").document["name"] == "box"
    assert command_line("env", "remove", "box").code == 125
    assert command_line("env", "add", "lab", "--backend", "local", "--default").code == 0
    removed = command_line("env", "remove", "box", "--json")
    assert removed.document == {
        "removed": "box", "file": str(json_home / "config.json"), "sessions": [],
    }  # fmt: skip
    assert command_line("env", "remove", "box").code == 127


def test_every_field_of_a_profile_has_a_flag() -> None:
    assert set(FLAGS) == set(Profile.__struct_fields__)


def test_removing_a_profile_says_that_its_sessions_keep_theirs(
    command_line: Any, json_home: Path
) -> None:
    assert command_line("env", "add", "box", "--backend", "docker", "--image", "i").code == 0
    plan = SessionPlan(SessionOptions(environment="box", home=json_home))
    plan.keep()
    ended = command_line("env", "remove", "box")
    assert ended.code == 0
    assert b"1 session of it keeps the saved profile" in ended.err
    assert SessionStore(json_home / "state" / "sessions").all()[0].profile is not None


def test_a_toml_file_gets_nothing_but_a_sentence(command_line: Any, home: Path) -> None:
    ended = command_line("env", "add", "box", "--backend", "docker", "--image", "debian:12")
    assert ended.code == 125
    assert b'[execution_environments.profiles.box]\nbackend = "docker"\n' in ended.err
    assert (home / "config.toml").read_text() == CONFIGURATION


def test_what_is_left_over_is_listed_and_removed_only_when_told_to(
    command_line: Any, json_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine's own engine is not for tests to clean up.
    monkeypatch.setenv("DOCKER_HOST", f"unix://{json_home}/no-engine")
    assert command_line("env", "prune").code == 0
    folder = json_home / "state" / "environments" / f"moorage-{'0' * 32}"
    folder.mkdir(parents=True)
    listed = command_line("env", "prune")
    assert listed.code == 1
    assert str(folder) in listed.out.decode()
    assert b"--yes" in listed.err
    document = command_line("env", "prune", "--json").document
    assert [each["name"] for each in document["leftovers"]] == [str(folder)]
    assert document["removed"] == []
    assert folder.exists()
    removed = command_line("env", "prune", "--yes", "--json")
    assert removed.code == 0
    assert removed.document["removed"] == document["leftovers"]
    assert not folder.exists()


def test_a_check_prints_every_step_with_its_time(
    command_line: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workspace").mkdir()
    monkeypatch.setenv("LANG", "C")
    ended = command_line("env", "check", "lab", "--workspace", str(tmp_path / "workspace"))
    assert ended.code == 0, ended.err
    lines = ended.out.decode().splitlines()
    assert [line.split()[1] for line in lines[:-1]] == [
        "profile", "machine", "open", "capabilities", "files", "command", "confinement", "close",
    ]  # fmt: skip
    assert lines[-1] == "lab works."
    assert lines[2].endswith((" ms", " s"))


@pytest.mark.parametrize(("answer", "is_removed"), [(b"y\n", True), (b"\n", False)])
def test_a_person_at_a_terminal_is_asked_before_anything_is_removed(
    json_home: Path, answer: bytes, is_removed: bool
) -> None:
    folder = json_home / "state" / "environments" / f"moorage-{'0' * 32}"
    folder.mkdir(parents=True)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as terminal, os.fdopen(theirs, "rb"):
        terminal.write(answer)
        ended = subprocess.run(  # noqa: TID251 - a program that has a terminal for its input
            [sys.executable, "-m", "moorage.cli", "env", "prune"],
            stdin=theirs,
            capture_output=True,
            check=False,
            timeout=30,
            env={**os.environ, "DOCKER_HOST": f"unix://{json_home}/no-engine"},
        )
    assert b"Remove 1 thing" in ended.stderr
    assert (ended.returncode == 0) is is_removed
    assert folder.exists() is not is_removed
