from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
