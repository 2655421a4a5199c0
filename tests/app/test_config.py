from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.app.config import load
from moorage.app.home import Home, find_home
from moorage.errors import ConfigError, NotFound

BOX = {"backend": "docker", "image": "img:1"}


def home_with(folder: Path, value: Any, name: str = "config.json") -> Home:
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text)
    return find_home(folder)


def test_an_absent_file_is_an_empty_configuration(tmp_path: Path) -> None:
    configuration = load(find_home(tmp_path))
    assert configuration.default_name() == "local"
    assert configuration.profile("local").backend == "local"


def test_json_and_toml_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    value = {"execution_environments": {"default": "box", "profiles": {"box": BOX}}}
    toml = (
        '[execution_environments]\ndefault = "box"\n'
        '[execution_environments.profiles.box]\nbackend = "docker"\nimage = "img:1"\n'
    )
    read = load(home_with(tmp_path / "a", value))
    assert read == load(home_with(tmp_path / "b", toml, "config.toml"))
    assert read.profile(read.default_name()).image == "img:1"


def test_both_files_are_an_error(tmp_path: Path) -> None:
    home_with(tmp_path, {})
    with pytest.raises(ConfigError, match=r"both config\.json and config\.toml"):
        load(home_with(tmp_path, "", "config.toml"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "malformed"),
        ("[]", "Expected `object`"),
        ({"colour": 1}, "unknown field `colour`"),
        ({"execution_environments": {"profils": {}}}, "unknown field `profils`"),
        ({"execution_environments": {"default": 3}}, "Expected `str`"),
        ({"execution_environments": {"default": "box"}}, "has no profile"),
        ({"execution_environments": {"profiles": {"local": BOX}}}, "cannot name a profile"),
        ({"writable_roots": ["relative"]}, "not an absolute path"),
        ({"writable_roots": "x"}, "Expected `array`"),
        ({"confinement": {"argv": ["/bin/x"], "enforcement": "some"}}, 'only "full"'),
        ({"confinement": {"argv": ["x"], "enforcement": "full"}}, "absolute path"),
        ({"confinement": {"argv": [], "enforcement": "full"}}, "absolute path"),
        ({"confinement": {"argv": ["/bin/x"], "enforcement": "full"}}, "hidden"),
    ],
)
def test_an_invalid_configuration_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(home_with(tmp_path, value))


def test_a_bad_profile_breaks_only_its_own_use(tmp_path: Path) -> None:
    profiles = {"good": BOX, "bad": {"backend": "docker"}}
    configuration = load(home_with(tmp_path, {"execution_environments": {"profiles": profiles}}))
    assert configuration.profile("good").image == "img:1"
    with pytest.raises(ConfigError, match=r"profiles\.bad\.image"):
        configuration.profile("bad")


def test_an_unknown_environment_never_becomes_local(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="unknown environment 'else'"):
        load(find_home(tmp_path)).profile("else")


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(find_home(tmp_path))


def test_the_home_follows_its_variable_or_the_xdg_folders(tmp_path: Path) -> None:
    named = find_home(variables={"MOORAGE_HOME": str(tmp_path), "HOME": "/nowhere"})
    assert (named.configuration, named.state) == (tmp_path, tmp_path / "state")
    assert named.hidden_paths == (tmp_path,)
    spread = find_home(variables={"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "s")})
    assert spread.configuration == tmp_path / ".config" / "moorage"
    assert spread.state == tmp_path / "s" / "moorage"
    assert set(spread.hidden_paths) == {spread.configuration, spread.state}


def test_a_relative_home_is_refused() -> None:
    with pytest.raises(ConfigError, match="absolute"):
        find_home("some/where")


def test_a_configured_confinement_provider_is_taken_over(tmp_path: Path) -> None:
    choice = {
        "argv": ["/usr/bin/bwrap", "--ro-bind", "/", "/"],
        "enforcement": "full",
        "hidden": ["--tmpfs", "{path}"],
        "writable": ["--bind", "{path}", "{path}"],
        "end": ["--"],
    }
    read = load(home_with(tmp_path, {"confinement": choice})).confinement
    assert read is not None
    assert read.provider().argv[0] == "/usr/bin/bwrap"
